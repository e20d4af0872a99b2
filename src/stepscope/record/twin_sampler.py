"""The Python twin of the native stack sampler: a Python thread, so it waits for the GIL.

What holds the GIL for long is therefore seen late and counted to the line after it. It serves where
the native one does not know the interpreter's frames.
"""

from __future__ import annotations

import inspect
import itertools
import opcode
import os
import random
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from stepscope.record.threads import join_fully
from stepscope.record.twin_ledger import line_of

if TYPE_CHECKING:
    from stepscope.record.protocol import Node

__all__ = ["TwinStackSampler"]

MAX_DEPTH = 1024
MAX_NODES = 32_768
NEWS_NS = 50_000_000
COUNTERS = (
    "taken", "torn", "late", "truncated", "nodes", "lost_nodes", "cpu_ns",
)  # fmt: skip

NATIVE = 4
# As in native/opcodes.h. What the interpreter does itself need not be told apart here: a thread
# that is seen at such an instruction has lost the GIL in there, so C let go of it.
_HANDS_OVER = frozenset(
    opcode.opmap[name]
    for name in (
        "CALL", "PRECALL", "CALL_KW", "CALL_FUNCTION_EX", "BINARY_OP", "BINARY_SUBSCR",
        "BINARY_SLICE", "STORE_SUBSCR", "STORE_SLICE", "DELETE_SUBSCR", "COMPARE_OP", "CONTAINS_OP",
        "UNARY_NEGATIVE", "UNARY_INVERT", "UNPACK_SEQUENCE", "UNPACK_EX", "LIST_EXTEND",
        "SET_UPDATE", "DICT_UPDATE", "DICT_MERGE", "GET_ITER", "IMPORT_NAME", "BEFORE_WITH",
        "WITH_EXCEPT_START", "TO_BOOL",
    )
    if name in opcode.opmap
)  # fmt: skip

_numbers = itertools.count(1)  # of the process: a second sampler must not reuse the first's
_running: list[TwinStackSampler] = []  # at most one


class _Samples(Protocol):
    """What it needs of a core."""

    def sample(
        self,
        name: int,
        value: float,
        arg: int = 0,
        track: int = 0,
        text: int = 0,
        flags: int = 0,
        /,
    ) -> None: ...
    def innermost_open(self, track: int, /) -> int: ...
    def now_ns(self) -> int: ...


class _Plan(NamedTuple):
    interval_ns: int
    threads: frozenset[int]
    skip: frozenset[int]


class TwinStackSampler:
    """See record/protocol.py."""

    def __init__(self, core: _Samples, name: int) -> None:
        self._core, self._name = core, name
        self._thread: threading.Thread | None = None
        self._pid = 0
        self._stop, self._news = threading.Event(), threading.Event()
        self._waits_track = 0
        self._seen_ns: dict[int, int] = {}
        self._news_ns = 0
        self._forget()

    def _forget(self) -> None:
        self._numbers: dict[tuple[int, int, int], int] = {}  # (caller, id of the code, instruction)
        self._codes: dict[int, CodeType] = {}  # kept, so that an id stays that code's
        self._in_c: dict[tuple[int, int], bool] = {}
        self._untold: deque[tuple[int, int, CodeType, int]] = deque()
        self._counters = dict.fromkeys(COUNTERS, 0)

    def start(
        self,
        interval_ns: int,
        threads: Sequence[int] = (),
        skip: Sequence[int] = (),
    ) -> None:
        if interval_ns <= 0:
            raise ValueError("the interval must be positive")
        if any(sampler._is_running() for sampler in _running):
            raise RuntimeError("another StackSampler is running in this process")
        if self._pid not in (0, os.getpid()):
            self._forget()  # what the parent was told, the child's reader was not
        self._stop, self._news = (
            threading.Event(),
            threading.Event(),
        )  # a fork may leave them locked
        self._pid = os.getpid()
        plan = _Plan(interval_ns, frozenset(threads), frozenset(skip))
        self._thread = threading.Thread(
            target=self._run, args=(plan, self._stop), name="stepscope-stacks", daemon=True
        )
        self._thread.start()
        _running[:] = [self]

    def _is_running(self) -> bool:
        return self._thread is not None and self._pid == os.getpid()

    def stop(self) -> None:
        thread, self._thread = self._thread, None
        if thread is None or self._pid != os.getpid():
            return
        self._stop.set()
        self._news.set()
        join_fully(thread)

    def wait(self) -> bool:
        if not self._is_running():
            return False
        self._waits_track = threading.get_native_id()
        stop, news = self._stop, self._news
        news.wait()
        news.clear()
        return not stop.is_set()

    def resolve(self) -> list[Node]:
        told: list[Node] = []
        while self._untold:
            number, caller, code, instruction = self._untold.popleft()
            line = line_of(code, instruction)
            if line <= 0:  # an instruction of the compiler's own
                line = code.co_firstlineno
            told.append((number, caller, code.co_filename, _name_of(code), line))
        return told

    def counters(self) -> dict[str, int]:
        return dict(self._counters)

    def _run(self, plan: _Plan, stop: threading.Event) -> None:
        began_ns, before_ns = self._core.now_ns(), self._counters["cpu_ns"]
        self._seen_ns = {}
        gap_ns = plan.interval_ns * random.uniform(0.5, 1.5)
        while not stop.wait(gap_ns / 1e9):
            self._counters["late"] += self._core.now_ns() - began_ns - gap_ns > plan.interval_ns
            began_ns = self._look(plan, began_ns)
            gap_ns = plan.interval_ns * random.uniform(0.5, 1.5)
            if self._untold and began_ns - self._news_ns >= NEWS_NS:
                self._news_ns = began_ns
                self._news.set()
            self._counters["cpu_ns"] = before_ns + time.thread_time_ns()

    def _look(self, plan: _Plan, before_ns: int) -> int:
        """One look at every thread; the time of it. A thread is first seen for the time since the
        look before."""
        now_ns = self._core.now_ns()
        seen_ns, self._seen_ns = self._seen_ns, {}
        for track, frame in _frames(plan, self._waits_track):
            number = self._number(_sites(frame))
            value = float(now_ns - seen_ns.get(track, before_ns))
            span = self._core.innermost_open(track)
            flags = NATIVE if self._runs_c(frame) else 0
            self._core.sample(self._name, value, number, track, span, flags)
            self._seen_ns[track] = now_ns
            self._counters["taken"] += 1
        return now_ns

    def _runs_c(self, frame: FrameType) -> bool:
        code, instruction = frame.f_code, frame.f_lasti
        found = self._in_c.get((id(code), instruction))
        if found is None:
            found = (
                0 <= instruction < len(code.co_code) and code.co_code[instruction] in _HANDS_OVER
            )
            if id(code) in self._codes:  # kept: its id stays its own
                self._in_c[id(code), instruction] = found
        return found

    def _number(self, sites: list[tuple[CodeType, int]]) -> int:
        if len(sites) > MAX_DEPTH:
            self._counters["truncated"] += 1
        caller = 0
        for code, instruction in reversed(sites[:MAX_DEPTH]):
            node = (caller, id(code), instruction)
            number = self._numbers.get(node)
            if number is None:
                if len(self._numbers) >= MAX_NODES:
                    self._counters["truncated"] += 1
                    return caller
                number = self._numbers[node] = next(_numbers)
                self._codes[id(code)] = code
                self._counters["nodes"] += 1
                self._untold.append((number, caller, code, instruction))
            caller = number
        return caller


def _frames(plan: _Plan, waits_track: int) -> Iterable[tuple[int, FrameType]]:
    """(kernel's id, innermost frame) of the threads that are to be looked at."""
    tracks = {thread.ident: thread.native_id for thread in threading.enumerate()}
    if sys.platform == "linux":  # Python 3.11 forgets that a fork gave it another
        tracks[threading.main_thread().ident] = os.getpid()
    own = threading.get_native_id()
    for ident, frame in sys._current_frames().items():
        track: Any = tracks.get(ident)  # None: a foreign thread, of which only C knows the id
        if track is None or track in (own, waits_track) or track in plan.skip:
            continue
        if not plan.threads or track in plan.threads:
            yield track, frame


def _sites(innermost: FrameType) -> list[tuple[CodeType, int]]:
    sites = []
    frame: FrameType | None = innermost
    while frame is not None:
        sites.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return sites


def _name_of(code: CodeType) -> str:
    """Functions that give values one by one are told as such, as in native/nodes.c."""
    if not code.co_flags & inspect.CO_GENERATOR or code.co_name == "<genexpr>":
        return code.co_qualname
    return f"{code.co_qualname}.<generator>"
