"""Text from outside, fit to be shown."""

from __future__ import annotations

import re

__all__ = ["make_visible", "shorten"]

# Controls, and what turns or hides text: shown as \u202e and the like.
_UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f"  # but tabs and new lines
    r"\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)


def make_visible(text: str) -> str:
    """What could not be seen in it is shown."""
    return _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def shorten(text: str, most: int = 90) -> str:
    """The end of a path and the beginning of a name say the most: the middle goes."""
    if len(text) <= most:
        return text
    half = (most - 1) // 2
    return f"{text[:half]}…{text[-half:]}"
