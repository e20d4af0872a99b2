"""Checkpoints are written while training goes on."""

from __future__ import annotations

import atexit
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from stepscope.collect.chain import hiding
from stepscope.tune.background import Background, Job
from stepscope.tune.checkpoint_file import CheckpointWriter
from stepscope.tune.doors import Doors, is_ours
from stepscope.tune.injection import Injection, users_site
from stepscope.tune.snapshot import Snapshots, Unlike

__all__ = ["Saving"]


class Saving(Injection):
    """settings: {}. Files and results stay the same.

    torch.save copies what it is given, as it is at that moment, and a thread writes it: beside its
    place first, so that a reader finds a whole file. Who looks at a file that is pending, in this
    process or in one that it starts, waits for it; a new name is given to it on the way. A version
    that is replaced before it was begun is not written. What cannot be written (the disk is full)
    is tried again at the next save or look, and raises there; at the end of the program it is told.
    A process that is killed loses up to three files that were pending.
    """

    name: ClassVar[str] = "saving"

    def install(self) -> None:
        import torch

        self._is_over = False
        self._background, self._snapshots = Background(), Snapshots(torch)
        self._writer = CheckpointWriter(torch, torch.save)
        self._doors = Doors(self.patches, lambda: self._background.is_busy, self._look)
        self._doors.install(but=("rename", "replace"))
        for name in ("rename", "replace"):
            original = getattr(os, name)
            self.patches.replace(os, name, self._renaming)
            self._doors.enable_as(original, getattr(os, name))
        save, load = self._saving(torch.save), self._loading(torch.load)
        for owner in (torch.serialization, torch):
            self.patches.put(owner, "save", save)
            self.patches.put(owner, "load", load)
        os.register_at_fork(after_in_child=self._background.after_fork)
        atexit.register(self.finish)

    def _look(self, path: str | None) -> None:
        self._background.wait(path)

    def _saving(self, save: Callable[..., None]) -> Callable[..., None]:
        def wrapper(obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
            if not isinstance(f, (str, os.PathLike)):
                self.told.refused("torch.save is given a file, not a path.", users_site())
                return save(obj, f, *args, **kwargs)
            job = None if args or kwargs or self._is_over else self._job(obj, f)
            if job is None:
                self._background.wait(os.path.abspath(f))  # noqa: PTH100
                return save(obj, f, *args, **kwargs)
            self._background.put(job)
            return self.told.applied("torch.save in the background", users_site())

        return hiding(save, wrapper)

    def _job(self, value: Any, given: Any) -> Job | None:
        """None: it has to be saved as before, be it that it raises."""
        path = os.path.abspath(given)  # noqa: PTH100
        if not isinstance(path, str) or not _is_for_files(path):
            return None
        try:
            taken = self._snapshots.take(value)
        except Unlike as why:
            self.told.refused(f"what is saved has to be written at once: {why}.", users_site())
            return None
        name = Path(path).stem or "archive"
        return Job(
            path,
            lambda where: self._writer.write(taken.value, where, name),
            lambda: self._snapshots.give_back(taken),
        )

    def _loading(self, load: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(f: Any, *args: Any, **kwargs: Any) -> Any:
            if self._background.is_busy and isinstance(f, (str, os.PathLike)):
                self._background.wait(os.path.abspath(f))  # noqa: PTH100
            return load(f, *args, **kwargs)

        return hiding(load, wrapper)

    def _renaming(self, rename: Callable[..., None]) -> Callable[..., None]:
        def wrapper(src: Any, dst: Any, **more: Any) -> None:
            if self._background.is_busy and not is_ours():
                if any(one is not None for one in more.values()):
                    self._background.wait()
                else:
                    source, target = (os.path.abspath(os.fsdecode(one)) for one in (src, dst))  # noqa: PTH100
                    if self._background.rename(source, target):
                        return None
                    self._background.wait(source)
                    self._background.wait(target)
            return rename(src, dst, **more)

        return hiding(rename, wrapper)

    def finish(self) -> None:
        self._is_over = True  # whoever saves at the very end has no thread any more
        self._background.wait()
        self._snapshots.clear()

    def undo(self) -> None:
        self._doors.undo()
        super().undo()
        atexit.unregister(self.finish)


def _is_for_files(path: str) -> bool:
    """A plain file is there or can be made, in a folder that files can be made in."""
    if not os.access(os.path.dirname(path), os.W_OK | os.X_OK):  # noqa: PTH120
        return False
    try:
        state = os.lstat(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return stat.S_ISREG(state.st_mode) and state.st_nlink == 1 and os.access(path, os.W_OK)
