"""What does profiling checkpoints cost?

A call of `record_event` of a CheckpointProfiler, on and off, less the loop around it, in turns with
an empty C call. And the step of a model with six checkpointed blocks with the profiler on, against
the same program without anything of stepscope: both are alive at once on one core, take turns of
five steps, and each turn is compared with the one beside it. In the first eight steps the profiler
measures more than later; `first_steps_ratio` in the figures is that of these alone. `off again` is
a bare run in the place of the profiled one: its distance from 1 is the noise.

    python benchmarks/checkpoint_events.py --rounds 5
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from harness import (
    Result,
    Target,
    at_least,
    at_most,
    compile_package,
    interleaved,
    paired_ratios,
    progress,
    summary,
    table,
    turn,
)
from stepscope import CheckpointEventType, CheckpointManager, CheckpointProfiler
from stepscope.record.core import core, core_reason
from turns import Player, TurnsError, play, turn_ratios

PROGRAM = Path(__file__).parent / "programs" / "checkpointed.py"
TURN_STEPS = 5
FIRST_STEPS = 8  # in which the profiler measures the bytes of every call, and memory
TIMEOUT_S = 60.0
EVENTS = 200_000
LEAST_STEP_MS = 20.0
EMPTY, CALL, ON, OFF = "empty loop", "empty call", "record_event", "record_event, off"
PROFILED, BARE, AGAIN = "profiler on", "off", "off again"


# ---- one event ----


def loop_of(record: Callable[..., object]) -> Callable[[], None]:
    kind = CheckpointEventType.RECOMPUTE

    def loop() -> None:
        for _ in range(EVENTS):
            record("blocks.3", kind, 0.25, 4096)

    return loop


def empty_loop() -> None:
    for _ in range(EVENTS):
        pass


def measure_events(rounds: int) -> dict[str, float]:
    """Nanoseconds of one call, less the loop."""
    manager = CheckpointManager()
    with (
        CheckpointProfiler(manager, manager.engine) as profiler,
        CheckpointProfiler(manager, manager.engine) as idle,
    ):
        profiler.start_profiling()
        subjects = {
            EMPTY: empty_loop,
            CALL: loop_of(getattr(core, "noop", core.nothing)),
            ON: loop_of(profiler.record_event),
            OFF: loop_of(idle.record_event),
        }
        taken = interleaved(subjects, rounds)
    loops = taken.pop(EMPTY)
    return {
        name: statistics.median(
            (whole - loop) / EVENTS for whole, loop in zip(times, loops, strict=True)
        )
        for name, times in taken.items()
    }


# ---- a step ----


class Compared(NamedTuple):
    """A run in the place of the profiled one, beside a bare one."""

    ratio: float  # of steps, the median over the turns
    first_ratio: float  # of the steps in which all is measured, without the very first
    step_ms: float  # of the bare one
    is_same: bool  # losses of both, bit for bit
    events: int


class Run:
    """A run that takes turns with another one."""

    def __init__(self, is_profiled: bool, steps: int, folder: Path) -> None:
        folder.mkdir()
        self.player = Player(folder / "turns")
        self._out = folder / "out.json"
        command = [sys.executable, str(PROGRAM), str(self._out), "--steps", str(steps)]
        command += ["--turns", str(self.player.folder), "--turn-steps", str(TURN_STEPS)]
        self._process = subprocess.Popen(
            [*command, *(["--profiled"] if is_profiled else [])],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def seen(self) -> dict[str, Any]:
        if self._process.wait(TIMEOUT_S):
            raise TurnsError("it ended with an error")
        return dict(json.loads(self._out.read_text()))

    def close(self) -> None:
        self.player.close()
        if self.is_alive():
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def compare(is_profiled: bool, steps: int) -> Compared:
    with tempfile.TemporaryDirectory() as name:
        runs = [
            Run(profiled, steps, Path(name, str(number)))
            for number, profiled in enumerate((is_profiled, False))
        ]
        try:
            players = [run.player for run in runs]
            play(players, steps // TURN_STEPS, lambda: all(run.is_alive() for run in runs))
            ours, bare = (run.seen() for run in runs)
        finally:
            for run in runs:
                run.close()
    ratios = turn_ratios(ours["step_s"], bare["step_s"], TURN_STEPS)
    return Compared(
        statistics.median(ratios),
        statistics.median(paired_ratios(*(run["step_s"][1:FIRST_STEPS] for run in (ours, bare)))),
        statistics.median(bare["step_s"][TURN_STEPS:]) * 1000,
        ours["losses"] == bare["losses"],
        ours.get("events", 0),
    )


def measure_steps(rounds: int, steps: int) -> dict[str, list[Compared]]:
    taken: dict[str, list[Compared]] = {PROFILED: [], AGAIN: []}
    for number in range(rounds):
        progress(f"round {number + 1} of {rounds}")
        for name in turn(list(taken), number):
            taken[name].append(compare(name == PROFILED, steps))
    return taken


def targets_of(events_ns: dict[str, float], steps: dict[str, list[Compared]]) -> list[Target]:
    ours = steps[PROFILED]
    return [
        at_most("ns for each event", events_ns[ON], 1000.0),
        at_most("step with the profiler on", statistics.median(o.ratio for o in ours), 1.01),
        at_least("ms of a step", statistics.median(o.step_ms for o in ours), LEAST_STEP_MS),
        at_least("share of runs with the same losses", _share_same(ours), 1.0),
    ]


def _share_same(runs: list[Compared]) -> float:
    return sum(one.is_same for one in runs) / len(runs)


def main() -> int:
    parser = argparse.ArgumentParser(description="What does profiling checkpoints cost?")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=200)
    arguments = parser.parse_args()

    compile_package()
    events_ns = measure_events(arguments.rounds)
    steps = measure_steps(arguments.rounds, arguments.steps)
    print(table(("one call", "ns"), [(name, f"{ns:.0f}") for name, ns in events_ns.items()]))
    ratios = {name: summary([one.ratio for one in runs]) for name, runs in steps.items()}
    rows = [(name, f"{found['median']:.4f}", f"{found['spread']:.4f}")
            for name, found in ratios.items()]  # fmt: skip
    print(table((f"step against {BARE}", "ratio", "spread"), rows))
    figures = {
        "core": core_reason,
        "event_ns": events_ns,
        "step_ratio": ratios,
        "first_steps_ratio": {
            name: statistics.median(one.first_ratio for one in runs) for name, runs in steps.items()
        },
        "events": steps[PROFILED][-1].events,
        "steps": arguments.steps,
    }
    print(Result("checkpoint_events", figures, targets_of(events_ns, steps)).line())
    return 0


if __name__ == "__main__":
    sys.exit(main())
