"""What every change of the catalogue has in common, and what it says about itself."""

from __future__ import annotations

import json
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar, NamedTuple, Protocol

from stepscope.collect.chain import Patches
from stepscope.model.own_code import is_ours

__all__ = ["APPLIED_FILE", "Injection", "Site", "Teller", "Told", "users_site"]

APPLIED_FILE = (
    "applied.jsonl"  # in the run folder: one line for each thing that was done or refused
)
_MOST_LINES = 200


class Site(NamedTuple):
    """A line of the user's program."""

    file: str
    line: int
    function: str


class Told(Protocol):
    """Whom a change tells what became of it. No call raises."""

    def applied(self, what: str, site: Site | None = None) -> None: ...
    def refused(self, why: str, site: Site | None = None) -> None: ...
    def failed(self, where: str, error: BaseException) -> None: ...


class Injection(ABC):
    """A change in a running program.

    Nothing here may raise into the program: what goes wrong is told (`self.told.failed`), and the
    program goes on as it was. Whatever can be undone is undone by `undo`.
    """

    name: ClassVar[str]  # in the catalogue

    def __init__(self, settings: Mapping[str, Any], told: Told) -> None:
        self.settings = settings
        self.told = told
        self.patches = Patches()

    @abstractmethod
    def install(self) -> None:
        """torch has been imported, the program's own code has not run yet: put things in place."""

    def seen(self, module: Any) -> None:  # noqa: B027 - few changes need it
        """An outermost module of the program is about to run for the first time."""

    def stepped(self, optimizer: Any) -> None:  # noqa: B027 - few changes need it
        """A step of an optimizer has ended: every one."""

    def finish(self) -> None:  # noqa: B027 - few changes need it
        """The program is about to end: what is pending has to be done now."""

    def undo(self) -> None:
        """Everything that the program has not been given yet is as it was."""
        self.patches.undo()


class Teller:
    """Told, into the run folder. Each thing is told once."""

    def __init__(
        self, run: Path, change: str, failed: Callable[[str, BaseException], None]
    ) -> None:
        self._path = run / APPLIED_FILE
        self._change, self._failed = change, failed
        self._known: set[tuple[Any, ...]] = set()

    def applied(self, what: str, site: Site | None = None) -> None:
        self._tell(what, site, refused=False)

    def refused(self, why: str, site: Site | None = None) -> None:
        self._tell(why, site, refused=True)

    def failed(self, where: str, error: BaseException) -> None:
        self._failed(f"change {self._change}: {where}", error)
        self._tell(f"{where} failed: {type(error).__name__}: {error}"[:300], None, refused=True)

    def _tell(self, what: str, site: Site | None, *, refused: bool) -> None:
        key = (what, site, refused)
        if key in self._known or len(self._known) >= _MOST_LINES:
            return
        self._known.add(key)
        place = site._asdict() if site is not None else {}
        line = json.dumps({"change": self._change, "what": what, "refused": refused, **place})
        try:
            # One write of a short line: those of other processes do not mix into it.
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                os.write(descriptor, line.encode() + b"\n")
            finally:
                os.close(descriptor)
        except OSError as error:
            self._failed("telling of a change", error)


def users_site(depth: int = 1) -> Site | None:
    """The innermost line of the user's own on the stack of this thread; None: there is none."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None:
        code = frame.f_code
        if _is_users(code.co_filename, code.co_qualname):
            return Site(code.co_filename, frame.f_lineno, code.co_qualname)
        frame = frame.f_back
    return None


_FOREIGN = ("/site-packages/", "/dist-packages/")
_LIBRARY = str(Path(os.__file__).resolve().parent) + os.sep


def _is_users(file: str, function: str) -> bool:
    """Neither ours nor an installed package's nor of the standard library nor made of text."""
    if is_ours(file, function):
        return False
    if file.startswith(("<", _LIBRARY)):
        return file in ("<stdin>", "<string>")
    return not any(part in file for part in _FOREIGN)
