"""Characters that a terminal may lack."""

from __future__ import annotations

from typing import NamedTuple

from stepscope.printer import make_visible

__all__ = ["ASCII", "UNICODE", "Glyphs", "glyphs_for"]

_PLAIN = str.maketrans({
    "×": "x", "µ": "u", "–": "-", "—": "-", "→": "->", "·": "-", "…": "...", "≥": ">=", "≤": "<=",
    "’": "'", "“": '"', "”": '"', "\u202f": " ", "\u00a0": " ",
})  # fmt: skip
_EIGHTHS = " ▏▎▍▌▋▊▉█"


class Glyphs(NamedTuple):
    """How bars, arrows and text are written."""

    encoding: str
    unicode: bool

    def text(self, text: str) -> str:
        """The text in characters that can be written, hidden ones spelled out."""
        text = make_visible(text)
        if self.unicode:
            return text
        plain = text.translate(_PLAIN)
        return plain.encode(self.encoding, "replace").decode(self.encoding)

    def bar(self, share: float, width: int) -> str:
        """A bar as long as the share; anything above 0 shows."""
        if not self.unicode:
            return "#" * max(round(share * width), 1 if share > 0 else 0)
        eighths = max(round(share * width * 8), 1 if share > 0 else 0)
        return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


UNICODE = Glyphs("utf-8", unicode=True)
ASCII = Glyphs("ascii", unicode=False)


def glyphs_for(encoding: str | None) -> Glyphs:
    """Those that an encoding has."""
    if not encoding:
        return ASCII
    try:
        f"×µ–→·…{_EIGHTHS}".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return Glyphs(encoding, unicode=False) if _known(encoding) else ASCII
    return Glyphs(encoding, unicode=True)


def _known(encoding: str) -> bool:
    try:
        "a".encode(encoding)
    except LookupError:
        return False
    return True
