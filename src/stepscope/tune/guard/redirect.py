"""Redirects what a Python program writes into a scratch folder.

This runs at the start of every Python process of a trial, before the program's own code, so it
imports next to nothing.
"""

from __future__ import annotations

import _io
import os
from os import fsdecode, fspath

from stepscope.tune.guard import raw
from stepscope.tune.guard.changing import Changing
from stepscope.tune.guard.copying import Copying
from stepscope.tune.guard.doors import Door, put_in_place
from stepscope.tune.guard.listing import Listing
from stepscope.tune.guard.native import Native
from stepscope.tune.guard.opening import Opening
from stepscope.tune.guard.paths import View
from stepscope.tune.guard.reading import MARKING, READING, Reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import Any

__all__ = ["ALLOWED_FILE", "ENV_SCRATCH", "Redirect", "install", "join_guard"]

ENV_SCRATCH = "STEPSCOPE_SCRATCH"  # the scratch folder of a trial; absent: nothing is redirected
ALLOWED_FILE = "allowed"  # in it: the folders that are written to as they are, zero bytes between
_TWO_PATHS = ("link", "rename", "replace")


class Redirect:
    """What stands between a program and its files."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.listing = Listing(view)
        self.copying = Copying(view, self.listing)
        self.opening = Opening(view, self.copying)
        self.changing = Changing(view, self.listing, self.copying)
        self.reading = Reading(view, self.copying)

    def replacements(self) -> dict[Any, Any]:
        """What Python has → what is to stand there."""
        changing, reading, listing = self.changing, self.reading, self.listing
        acts: dict[str, Callable[..., Any]] = {
            "open": self.opening.open_descriptor,
            "mkdir": changing.mkdir,
            "mkfifo": changing.mkfifo,
            "mknod": changing.mknod,
            "symlink": changing.symlink,
            "link": changing.link,
            "remove": changing.remove,
            "unlink": changing.remove,
            "rmdir": changing.rmdir,
            "rename": changing.rename,
            "replace": changing.rename,
            "listdir": listing.listdir,
            "scandir": listing.scandir,
            "stat": reading.stat,
            "lstat": reading.lstat,
            "access": reading.access,
            "readlink": reading.readlink,
            "getcwd": reading.getcwd,
            "getcwdb": reading.getcwdb,
            "chdir": reading.chdir,
            "fchmod": reading.marking(os.chmod),
            "fchown": reading.marking(os.chown),
            "lchown": reading.marking_link(os.chown),
            **{name: reading.asking(getattr(os, name)) for name in READING},
            **{name: reading.marking(getattr(os, name)) for name in MARKING},
        }
        doors: dict[Any, Any] = {
            getattr(os, name): Door(getattr(os, name), act, paths=2 if name in _TWO_PATHS else 1)
            for name, act in acts.items()
        }
        doors[raw.open_file] = Door(raw.open_file, self.opening.open)
        doors[_io.FileIO] = self.opening.file_io
        return doors


def install(scratch: Path | str, allowed: Sequence[Path | str]) -> Redirect:
    """From now on this process and those that it forks write below `scratch`.

    allowed: folders that are written to as they are. All without links in them.
    """
    redirect = Redirect(View(fspath(scratch), [fspath(folder) for folder in allowed]))
    put_in_place(redirect.replacements())
    Native(redirect.opening, redirect.reading).wait()
    return redirect


def join_guard(environ: Mapping[str, str]) -> Redirect | None:
    """Redirect this process if it belongs to a trial; None: it does not."""
    scratch = environ.get(ENV_SCRATCH)
    if not scratch:
        return None
    with raw.open_file(f"{scratch}/{ALLOWED_FILE}", "rb") as file:
        allowed = [fsdecode(folder) for folder in file.read().split(b"\0") if folder]
    return install(scratch, allowed)
