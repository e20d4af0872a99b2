"""What a patch consists of."""

from __future__ import annotations

from dataclasses import dataclass

from stepscope.model.change import Change

__all__ = ["Edit", "NotWritten", "Patch"]


@dataclass(frozen=True, slots=True)
class Edit:
    """One file's whole text. Line ends are those of the file; encoding: as Python reads it."""

    file: str
    before: str
    after: str
    encoding: str = "utf-8"

    @property
    def old(self) -> bytes:
        """What stood in the file when it was read."""
        return self.before.encode(self.encoding)

    @property
    def new(self) -> bytes:
        return self.after.encode(self.encoding)


@dataclass(frozen=True, slots=True)
class NotWritten:
    """A change that is not in the patch. setting: what has the same effect instead."""

    change: Change
    why: str
    setting: str


@dataclass(frozen=True, slots=True)
class Patch:
    """notes: what the reader of the diff should know, a sentence each ("train.py:12: …")."""

    edits: tuple[Edit, ...]
    refused: tuple[NotWritten, ...]
    notes: tuple[str, ...] = ()
