"""One run of the user's program for a measurement: kept from the user's files, watched, ended."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from stepscope.model.trial import Outcome
from stepscope.session.machine_load import Load, LoadWatch
from stepscope.session.trial import TRIAL_ENDED
from stepscope.store.files import PRIVATE_FILE

__all__ = ["OUTPUT_FILE", "Ended", "Limits", "Observer", "run_program"]

OUTPUT_FILE: Final = "output.log"  # in the run folder: what the program printed
_POLL_S: Final = 0.05
_LOOK_EVERY_S: Final = 0.5
_PATIENCE_S: Final = 2.0
_SUBREAPER: Final = 36  # PR_SET_CHILD_SUBREAPER
_MEMORY_WORDS: Final = (
    "MemoryError",
    "OutOfMemoryError",
    "can't allocate memory",
    "Cannot allocate",
)


@dataclass(frozen=True, slots=True)
class Limits:
    """Beyond these a run is ended, and that is its result."""

    seconds: float
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended. MEASURED means here that it ran as far as it was meant to."""

    outcome: Outcome
    why: str
    took_s: float
    peak_bytes: int
    load: Load


class Observer(Protocol):
    """Follows a run while it goes on."""

    def start(self, pid: int) -> None: ...
    def look(self) -> None: ...


def run_program(
    argv: Sequence[str],
    environment: Mapping[str, str],
    run: Path,
    limits: Limits,
    observer: Observer | None = None,
) -> Ended:
    """What it prints goes into a file of the run. Everything that it started is gone when this
    returns."""
    log = run / OUTPUT_FILE
    _adopt_orphans(True)
    watch = LoadWatch()
    began_s = time.monotonic()
    log.touch(PRIVATE_FILE)
    with log.open("wb") as output:
        child = subprocess.Popen(
            list(argv),
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    watched = _Watched(child, run, limits, observer)
    try:
        watched.wait()
    finally:
        watched.end_all()
        _adopt_orphans(False)
    took_s = time.monotonic() - began_s
    outcome, why = watched.outcome(log)
    return Ended(outcome, why, took_s, watched.peak_bytes, watch.load())


def _adopt_orphans(ours: bool) -> None:
    """What the program leaves behind becomes ours: it can be ended, and its CPU time counted."""
    try:
        ctypes.CDLL(None).prctl(_SUBREAPER, int(ours), 0, 0, 0)
    except (OSError, AttributeError):
        return  # then orphans end by themselves


class _Watched:
    def __init__(
        self,
        child: subprocess.Popen[bytes],
        run: Path,
        limits: Limits,
        observer: Observer | None,
    ) -> None:
        self._child, self._run, self._limits = child, run, limits
        self._observer = observer
        self._is_done = False
        self._killed: tuple[Outcome, str] | None = None
        self.peak_bytes = 0

    def wait(self) -> None:
        if self._observer is not None:
            self._observer.start(self._child.pid)
        until_s = time.monotonic() + self._limits.seconds
        look_s = 0.0
        while self._child.poll() is None and self._killed is None:
            now_s = time.monotonic()
            if now_s >= until_s:
                seconds = f"{self._limits.seconds:.0f} s"
                self._killed = (Outcome.HUNG, f"it had not come to its end after {seconds}")
            elif (self._run / f"{TRIAL_ENDED}-0").exists():
                self._is_done = True  # one of several ranks: they wait to be ended
                return
            elif now_s >= look_s:
                look_s = now_s + _LOOK_EVERY_S
                self._look_at_memory()
                if self._observer is not None:
                    self._observer.look()
            time.sleep(_POLL_S)

    def _look_at_memory(self) -> None:
        used = sum(_memory_bytes(pid) for pid in (self._child.pid, *_descendants(self._child.pid)))
        self.peak_bytes = max(self.peak_bytes, used)
        if used > self._limits.memory_bytes:
            most = f"{self._limits.memory_bytes / 2**30:.1f} GiB is the limit"
            why = f"it held {used / 2**30:.1f} GiB, and {most}"
            self._killed = (Outcome.TOO_MUCH_MEMORY, why)

    def end_all(self) -> None:
        """The program, its group, and whatever of it became ours."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in self._left():
                _send(pid, number)
            if self._gone_within(_PATIENCE_S):
                return

    def _left(self) -> list[int]:
        """Processes of its session: we may have started others."""
        return [pid for pid in _descendants(os.getpid()) if _session(pid) == self._child.pid]

    def _gone_within(self, seconds: float) -> bool:
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            self._child.poll()
            left = self._left()
            for pid in left:
                if pid != self._child.pid:  # its exit code is waited for by name
                    _reap(pid)
            if not left:
                return True
            time.sleep(_POLL_S)
        return False

    def outcome(self, log: Path) -> tuple[Outcome, str]:
        if self._killed is not None:
            return self._killed
        code = self._child.returncode
        if code == 0 or self._is_done:
            return Outcome.MEASURED, ""
        last = _last_line(log)
        if code == -signal.SIGKILL or any(word in last for word in _MEMORY_WORDS):
            return Outcome.OUT_OF_MEMORY, last or "the kernel ended it"
        return Outcome.CRASHED, last or f"exit code {code}"


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return -1


def _reap(pid: int) -> None:
    """An orphan that became ours; one that is not has a parent that does this."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return


def _descendants(pid: int) -> list[int]:
    found = []
    for child in _children(pid):
        found += [child, *_descendants(child)]
    return found


def _children(pid: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(one) for task in tasks for one in (task / "children").read_text().split()]
    except OSError:
        return []


def _memory_bytes(pid: int) -> int:
    """What it holds for itself: pages that processes share count once for each, or not at all."""
    try:
        fields = Path(f"/proc/{pid}/statm").read_text().split()
    except OSError:
        return 0
    return (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE")


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _last_line(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 20_000))
            lines = file.read().decode("utf-8", "replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1].strip()[:300] if lines else ""
