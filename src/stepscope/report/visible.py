"""Text from outside, with what could not be seen in it made visible."""

from __future__ import annotations

import re

__all__ = ["make_visible"]

# Controls, and what turns or hides text: shown as \u202e and the like.
_UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f"  # but tabs and new lines
    r"\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)


def make_visible(text: str) -> str:
    return _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
