"""The launcher's side of captures: asking for them, and folding what they saw into a file.

While nobody asks, only what numbers mean is remembered. From a request on, the batches of all
processes are kept until its end was read; then its time alone is folded as a run is.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from stepscope.analyze.captures import Meanings
from stepscope.collect.control import Control, open_control
from stepscope.model import names
from stepscope.model.capture_request import CaptureRequest
from stepscope.model.event import Batch
from stepscope.model.finding import Location
from stepscope.model.process import ProcessInfo
from stepscope.store.captures import ask_capture, capture_path, say_run, write_capture

__all__ = ["ANSWER_S", "Answer", "Captured", "Captures", "Kept", "Recorded"]

ANSWER_S: Final = 60.0  # a program that has not begun by then does not begin any more
MOST_ROWS: Final = 600_000  # that are kept: some 50 MB
# After the end of a capture: processes write what they have once a second, each at its own time.
SETTLE_NS: Final = 1_500_000_000
SAMPLED_BEFORE: Final = 16  # batches of the launcher: what grew is told from a sample before
PROCESSES: Final = 64  # whose meanings are remembered: workers come and go
OTHERS_NS: Final = 3_000_000_000  # for processes that began it and did not end it
_MARKS: Final = frozenset((names.CAPTURE_BEGIN, names.CAPTURE_END, names.CAPTURE_MEMORY))


_Key: TypeAlias = tuple[str, int, int]


class Kept(NamedTuple):
    process: ProcessInfo
    batch: Batch


class Recorded(NamedTuple):
    """kept: all batches since a capture was asked for, and of the launcher some before. meanings:
    what processes told once, however long ago."""

    kept: list[Kept]
    meanings: list[tuple[ProcessInfo, Meanings]]


class Captured(NamedTuple):
    """A capture that is over. path: of its file, in the run folder; "": it could not be written.
    alert: id of the alert that it was taken for, or "". location: where most of it lies."""

    number: int
    path: str
    alert: str
    title: str
    location: Location


class Answer:
    """What one process told about a capture."""

    def __init__(self, process: ProcessInfo) -> None:
        self.process = process
        self.began_ns: int | None = None
        self.ended: dict[str, Any] | None = None
        self.ended_ns = 0
        self.memory: list[str] = []

    @property
    def steps(self) -> int:
        told = (self.ended or {}).get("steps")
        return told if isinstance(told, int) else 0


class _Pending:
    """A capture that was asked for."""

    def __init__(self, request: CaptureRequest, seen_ns: int) -> None:
        self.request = request
        self.seen_ns = seen_ns
        self.answers: dict[_Key, Answer] = {}

    def answer(self, process: ProcessInfo) -> Answer:
        return self.answers.setdefault(_key(process), Answer(process))

    def is_ready(self, now_ns: int) -> bool:
        begun = [one for one in self.answers.values() if one.began_ns is not None]
        ended = [one for one in self.answers.values() if one.ended is not None]
        if not self.answers:
            return now_ns > self.seen_ns + round((ANSWER_S + self.request.seconds) * 1e9)
        last_ns = max((one.ended_ns for one in ended), default=0)
        if all(one.ended is not None for one in begun):
            return now_ns > last_ns + SETTLE_NS
        with_steps = [one.ended_ns for one in ended if one.steps]
        if with_steps and now_ns > max(with_steps) + OTHERS_NS:
            return True  # the others make no steps, and go on to the end of their time
        began_ns = max(one.began_ns or 0 for one in begun)
        return now_ns > began_ns + round(self.request.seconds * 1e9) + OTHERS_NS


class Captures:
    """`take` every batch of every process; `ended` once in a while, `close` at the end of the run.

    OSError in making the page by which programs are asked: captures are not possible, nothing else
    changes.
    """

    def __init__(
        self, status_folder: Path, run: Path, now_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._status_folder, self._run, self._now_ns = status_folder, run, now_ns
        self._control: Control | None = None
        try:
            self._control = open_control(status_folder)
            say_run(status_folder, run)
        except OSError:
            pass  # as good as a status folder that cannot be made: nobody can ask
        self._done = 0  # requests up to this one are answered
        self._pending: dict[int, _Pending] = {}
        self._kept: deque[Kept] = deque()
        self._meanings: dict[_Key, tuple[ProcessInfo, Meanings]] = {}
        self._outside: deque[Kept] = deque()  # what the launcher sampled, from a while before on
        self._rows = self._dropped = 0

    def ask(self, request: CaptureRequest) -> int:
        """Its number; 0: nobody can be asked."""
        if self._control is None:
            return 0
        expires_ns = self._now_ns() + round(ANSWER_S * 1e9)
        try:
            return ask_capture(self._status_folder, request._replace(expires_ns=expires_ns))
        except OSError:
            return 0

    @property
    def is_busy(self) -> bool:
        """A capture was asked for and is not over."""
        return self._control is not None and self._control.asked[0] > self._done

    def take(self, process: ProcessInfo, batch: Batch) -> None:
        """Little while nobody asks: only what numbers mean is remembered."""
        if self._control is None or not batch.count:
            return
        is_idle = self._control.asked[0] <= self._done
        if process.role != "program":
            self._outside.append(Kept(process, batch))
            while is_idle and len(self._outside) > SAMPLED_BEFORE:
                self._outside.popleft()
            return
        self._learn(process, batch)
        if is_idle:
            return
        self._expect(self._control)
        self._kept.append(Kept(process, batch))
        self._rows += batch.count
        while self._rows > MOST_ROWS:
            dropped = self._kept.popleft().batch.count
            self._rows -= dropped
            self._dropped += dropped
        columns = batch.columns
        for name, place in batch.places(_MARKS):
            text = batch.names.get(columns["text"][place], "")
            self._note(process, name, columns["arg"][place], columns["time_ns"][place], text)

    def _learn(self, process: ProcessInfo, batch: Batch) -> None:
        key = _key(process)
        found = self._meanings.pop(key, None) or (process, Meanings())
        self._meanings[key] = found  # last: those that were not heard of for longest come first
        if len(self._meanings) > PROCESSES:
            del self._meanings[next(iter(self._meanings))]
        found[1].update(batch)

    def _expect(self, control: Control) -> None:
        for number in range(self._done + 1, control.asked[0] + 1):
            if number not in self._pending:
                try:
                    request = control.read(number)
                except (OSError, ValueError):
                    request = CaptureRequest()
                self._pending[number] = _Pending(request, self._now_ns())

    def _note(self, process: ProcessInfo, name: str, number: int, time_ns: int, text: str) -> None:
        pending = self._pending.get(number)
        if pending is None:
            return
        answer = pending.answer(process)
        if name == names.CAPTURE_BEGIN:
            answer.began_ns = time_ns
        elif name == names.CAPTURE_MEMORY:
            answer.memory.append(text)
        else:
            told = _plain(text)
            answer.ended, answer.ended_ns = told, time_ns

    def ended(self) -> list[Captured]:
        """Captures that are over since the last call. Never raises."""
        if not self.is_busy:
            return []
        assert self._control is not None
        self._expect(self._control)
        now_ns, found = self._now_ns(), []
        while (pending := self._pending.get(self._done + 1)) and pending.is_ready(now_ns):
            found.append(self._finish(pending))
        return found

    def close(self) -> list[Captured]:
        """The run is over: what has begun is told as far as it came."""
        found = []
        if self._control is not None:
            self._expect(self._control)
        while pending := self._pending.get(self._done + 1):
            found.append(self._finish(pending))
        self._control = None
        return found

    def _finish(self, pending: _Pending) -> Captured:
        number = self._done = self._done + 1
        del self._pending[number]
        meanings = list(self._meanings.values())
        recorded = Recorded([*self._outside, *self._kept], meanings)
        answers = list(pending.answers.values())
        if not self._pending:
            self._kept.clear()
            self._rows = 0
        # Folding imports what a run without captures does without.
        from stepscope.session.capture_fold import fold_capture, unfolded

        try:
            capture = fold_capture(number, pending.request, self._run, answers, recorded)
        except Exception as error:  # noqa: BLE001 - the launcher goes on, and who waits is told
            capture = unfolded(number, pending.request, self._run, f"Folding it failed: {error}")
        details = capture.details
        path = capture_path(number)
        try:
            write_capture(self._run, capture)
        except (OSError, ValueError):
            path = ""
        return Captured(number, path, pending.request.alert, details.title, details.location)


def _key(process: ProcessInfo) -> _Key:
    return process.host, process.pid, process.monotonic_ns


def _plain(text: str) -> dict[str, Any]:
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}
