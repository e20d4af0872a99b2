"""Which commit the program was run from, asked of git on the side.

git runs while the program does; nobody waits for it in a large repository.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

__all__ = ["GitProbe"]

_ASK = (
    "git",
    "--no-optional-locks",
    "status",
    "--porcelain=v2",
    "--branch",
    "--untracked-files=no",
)
_PATIENCE_S = 0.2
_COMMIT = "# branch.oid "


class GitProbe:
    """Asks on creation; `result` gives the answer, {} if there is none (yet)."""

    def __init__(self, folder: Path, answer: Path) -> None:
        self._answer = answer
        self._pid = 0
        git = shutil.which("git") if _in_repository(folder) else None
        if git is not None:
            self._pid = self._start(git)

    def _start(self, git: str) -> int:
        write = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        files = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(self._answer), write, 0o600),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ]
        try:
            return os.posix_spawn(git, _ASK, os.environ, file_actions=files)
        except OSError:
            return 0

    def result(self) -> dict[str, Any]:
        """`commit` and `dirty` (whether tracked files were changed)."""
        if not self._pid or self._wait() != 0:
            return {}
        try:
            lines = self._answer.read_text("utf-8", "replace").splitlines()
        except OSError:
            return {}
        commits = [line.removeprefix(_COMMIT) for line in lines if line.startswith(_COMMIT)]
        if not commits or commits[0] == "(initial)":
            return {}
        return {"commit": commits[0], "dirty": any(not line.startswith("#") for line in lines)}

    def _wait(self) -> int:
        """Exit status; a git that takes too long is ended."""
        pid, self._pid = self._pid, 0
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    return status
                if time.monotonic() > deadline:
                    os.kill(pid, signal.SIGKILL)
                    return os.waitpid(pid, 0)[1]
            except OSError:
                return -1
            time.sleep(0.005)


def _in_repository(folder: Path) -> bool:
    return any((parent / ".git").exists() for parent in (folder, *folder.parents))
