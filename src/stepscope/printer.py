"""The only way from stepscope to a terminal.

Run folders, programs and error messages hold text that others wrote. Control characters in it
could write to the clipboard (OSC 52), retitle the window or hide what follows, so every text is
made visible here on its way out. Rich output takes the same way: see report/console.py.

Standard library only: the training process uses this module too.
"""

from __future__ import annotations

import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

__all__ = ["in_one_line", "make_visible", "say", "show", "show_exactly", "write_line"]

# Control characters except tab and newline, characters that change the direction of text or have
# no width, and surrogates, which no encoding can write. The two joiners (U+200C, U+200D) pass:
# emoji, Persian and Hindi need them.
_HIDDEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad"
    r"\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    r"\U000e0000-\U000e007f]"
)


def make_visible(text: str) -> str:
    r"""The text with hidden characters spelled out, in the way that JSON spells them.

    >>> make_visible("\x1b]52;c;cm0=\x07")
    '\\u001b]52;c;cm0=\\u0007'
    """
    return _HIDDEN.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def in_one_line(text: str) -> str:
    """Visible, and without line breaks: one message cannot pass for two."""
    return make_visible(text.replace("\n", " ").replace("\t", " "))


def show(text: str, *, end: str = "\n") -> None:
    """Print text or a JSON document to stdout."""
    print(make_visible(text), end=end)


def show_exactly(text: str) -> None:
    """Print what a program will read, such as a diff, byte for byte. A person on a terminal gets
    it made visible. Bytes that are no UTF-8 come as surrogate escapes."""
    if sys.stdout.isatty():
        show(text, end="")
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
    sys.stdout.buffer.flush()


def say(line: str) -> None:
    """Print a message as one line to stderr. A closed stderr is no reason to fail."""
    if sys.stderr is None:  # print() would write to stdout instead
        return
    try:
        write_line(f"stepscope: {in_one_line(line)}", sys.stderr)
    except (OSError, ValueError):
        pass


def write_line(text: str, file: TextIO) -> None:
    """Print text to a file that may be a terminal, and flush it."""
    print(make_visible(text), file=file, flush=True)
