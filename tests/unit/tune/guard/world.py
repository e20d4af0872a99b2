"""A user's folder with files that trials must leave alone."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stepscope.tune.guard.guarded import Guarded, prepare

__all__ = ["World", "fingerprint", "make_project"]

# What stepscope's own bootstrap does, and nothing else.
_JOINING = """
import os
from stepscope.tune.guard.redirect import join_guard
join_guard(os.environ)
"""


def make_project(folder: Path) -> Path:
    (folder / "checkpoints" / "old").mkdir(parents=True)
    (folder / "data").mkdir()
    (folder / "log.jsonl").write_text('{"step": 1}\n')
    (folder / "checkpoints" / "last.pt").write_bytes(b"the last")
    (folder / "checkpoints" / "best.pt").write_bytes(b"the best")
    (folder / "checkpoints" / "old" / "1.pt").write_bytes(b"one")
    (folder / "data" / "a.txt").write_text("a")
    (folder / "linked").symlink_to("data")
    (folder / "linked.txt").symlink_to("data/a.txt")
    return folder


def fingerprint(folder: Path) -> dict[str, tuple[object, ...]]:
    """Content, mode, times and places of everything in a folder."""
    found: dict[str, tuple[object, ...]] = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        state = path.lstat()
        if path.is_symlink():
            content = str(path.readlink())
        else:
            content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        key = str(path.relative_to(folder))
        found[key] = (content, state.st_mode, state.st_size, state.st_mtime_ns, state.st_ino)
    return found


@dataclass(frozen=True)
class World:
    """A project, and how to run a program in it under both layers of the guard."""

    project: Path
    guarded: Guarded
    bootstrap: Path

    @classmethod
    def make(cls, folder: Path) -> World:
        bootstrap, run = folder / "bootstrap", folder / "run"
        bootstrap.mkdir()
        run.mkdir()
        (bootstrap / "sitecustomize.py").write_text(_JOINING)
        project = make_project(folder / "project")
        return cls(project, prepare(folder / "tuning", run), bootstrap)

    @property
    def environment(self) -> Mapping[str, str]:
        return {**os.environ, **self.guarded.environment, "PYTHONPATH": str(self.bootstrap)}

    def start(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command; the project must be what it was, to the byte."""
        before = fingerprint(self.project)
        done = subprocess.run(
            [*self.guarded.prefix, *command],
            cwd=self.project,
            env=dict(self.environment),
            capture_output=True,
            text=True,
            check=False,
        )
        assert fingerprint(self.project) == before
        return done

    def run(self, program: str) -> str:
        """Run a Python program that must succeed; gives what it printed."""
        file = self.bootstrap / "program.py"  # a file: processes that are spawned import it
        file.write_text(program)
        done = self.start(sys.executable, "-W", "error", str(file))
        assert done.returncode == 0, done.stderr
        return done.stdout
