"""The launcher's side: a scratch folder for each trial, and how to start a program in it."""

from __future__ import annotations

import getpass
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stepscope.tune.guard import landlock, start
from stepscope.tune.guard.redirect import ALLOWED_FILE, ENV_SCRATCH

__all__ = ["Guarded", "available", "prepare", "unlock"]

_SYSTEM = ("/dev", "/proc")  # terminals, shared memory; what a process tells the kernel of itself
available = landlock.available


@dataclass(frozen=True)
class Guarded:
    """How to run one trial so that it leaves the user's files alone.

    environment: to be set on top of the program's own. prefix: goes in front of its command line;
    the process becomes the program. scratch: what the program wrote.
    """

    environment: Mapping[str, str]
    prefix: tuple[str, ...]
    scratch: Path
    temporary: Path

    def written_bytes(self) -> int:
        """Size of the files that the program made or changed, temporary ones included."""
        folders = (self.scratch / "files", self.temporary)
        return sum(size for folder in folders for size in _sizes_bytes(folder))

    def remove(self) -> None:
        """Throw away what the program wrote. What cannot be removed is left, and nothing raised."""
        for folder in (self.scratch, self.temporary):
            shutil.rmtree(folder, ignore_errors=True)
            if folder.exists():  # the program took away its own right to write there
                unlock(folder)
                shutil.rmtree(folder, ignore_errors=True)


def prepare(folder: Path, run: Path, allowed: Sequence[Path] = ()) -> Guarded:
    """Make a scratch folder in `folder`, which is the tuning's own: trials share caches in it.

    run: the trial's run folder. Into it and into `allowed` the program writes as it is; they must
    be there when it starts.
    """
    folder = folder.resolve()
    compiled = folder / "compiled"
    compiled.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="scratch-", dir=folder))
    (scratch / "files").mkdir()
    # Not in the scratch folder: names of sockets in it may have some 100 characters in all.
    temporary = Path(tempfile.mkdtemp(prefix="stepscope-")).resolve()
    _share_compiled(temporary, compiled)
    known = [scratch, temporary, run.resolve(), compiled, *(one.resolve() for one in allowed)]
    writable = [*_SYSTEM, *map(str, known)]
    (scratch / ALLOWED_FILE).write_bytes(b"\0".join(map(os.fsencode, writable)))
    return Guarded(
        {
            ENV_SCRATCH: str(scratch),
            "TMPDIR": str(temporary),
            "TORCHINDUCTOR_CACHE_DIR": str(compiled),
        },
        (*_trampoline(), *(word for place in writable for word in ("--allow", place)), "--"),
        scratch,
        temporary,
    )


def _share_compiled(temporary: Path, compiled: Path) -> None:
    """torch keeps precompiled headers (150 MB, some ten seconds) in the temporary folder, wherever
    its cache is. They are the same for all trials."""
    try:
        user = getpass.getuser()
    except (KeyError, ModuleNotFoundError, OSError):  # a user without a name
        user = f"uid_{os.getuid()}"
    name = re.sub(r'[\\/:*?"<>|]', "_", user)
    (temporary / f"torchinductor_{name}").symlink_to(compiled)


def _trampoline() -> tuple[str, ...]:
    # Isolated and without site: neither the program's folder nor its environment changes what is
    # imported, and it starts in half the time.
    return (sys.executable, "-I", "-S", str(Path(start.__file__).resolve()))


def _sizes_bytes(folder: Path) -> Iterator[int]:
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                yield os.lstat(Path(place, name)).st_size
            except FileNotFoundError:
                pass


def unlock(folder: Path) -> None:
    """Give the owner all rights to every folder, from above: so those below are found."""
    _give_rights(folder)
    for place, names, _ in os.walk(folder):
        for name in names:
            _give_rights(Path(place, name))


def _give_rights(folder: Path) -> None:
    try:
        if not folder.is_symlink():  # what a link leads to is not ours
            folder.chmod(stat.S_IRWXU)
    except OSError:
        pass  # gone meanwhile, or somebody else's
