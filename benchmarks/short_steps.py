"""What stepscope costs a step, from 0.2 to 300 ms, in two ranks, and where workers start anew.

A run under stepscope and a bare one are alive at once and take turns. Whoever has no turn is
stopped with all its processes, so that what stepscope does beside the program (its threads, its
launcher) counts in its own turns only. A turn is compared with the one right beside it, all of
its time, and the median of these ratios is the figure.

The CPU that the training thread used in its turns is compared likewise: it shows what hooks cost on
a machine that others use too, but not the waiting for stepscope's other threads and processes.

Beside it stands the cost that stepscope prints for the run: the time in its hooks, over the time
of all turns. It should be the one that was measured.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import turns
from harness import Target, at_most, paired_ratios, progress, summary, table
from processes import UnavailableError, script

__all__ = ["SUBJECTS", "Round", "figures_of", "measure_all", "overview", "targets_of"]

PROGRAM = Path(__file__).parent / "programs" / "short_steps.py"
END_S = 90.0
WARM_TURNS = 3
# Ratios closer to 1 than this are not told apart on a shared machine.
RESOLUTION = 0.005
PRINTED_FACTOR = 1.5


@dataclass(frozen=True, slots=True)
class Subject:
    """`steps` of one turn, some 0.2 s of them. `limit`: for the ratio of step times."""

    steps: int
    limit: float = 1.01
    ranks: int = 1


SUBJECTS = {
    "0.2ms": Subject(1000, limit=1.03),
    "1ms": Subject(200),
    "5ms": Subject(40),
    "30ms": Subject(7),
    "300ms": Subject(1),
    "ddp": Subject(40, ranks=2),
    "workers": Subject(20),
}


@dataclass(frozen=True, slots=True)
class Round:
    """One run under stepscope and one bare run that took turns."""

    ratios: Sequence[float]  # of turns
    cpu_ratios: Sequence[float]  # of the CPU that the training thread used in them
    printed: float  # cost of the hooks as stepscope tells it, against the time of all its turns
    step_s: float  # of the bare run


class _Player:
    """A run with all its processes, stopped while it is not its turn."""

    def __init__(self, name: str, turn_count: int, folder: Path, ours: bool) -> None:
        folder.mkdir()
        subject = SUBJECTS[name]
        self.run = folder / "run"
        self._out = folder / "out.json"
        self._player = turns.Player(folder / "turns")
        program = [str(PROGRAM), str(self._out), str(self._player.folder), "--subject", name]
        program += ["--turns", str(turn_count), "--steps", str(subject.steps)]
        command = [sys.executable, *program]
        if subject.ranks > 1:
            command = [script("torchrun"), f"--nproc-per-node={subject.ranks}"]
            command += ["--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", *program]
        if ours:
            command = [script("stepscope"), "run", "-o", str(self.run), *command]
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def turn(self) -> None:
        self._signal(signal.SIGCONT)
        self._player.turn(self.is_alive)
        self._signal(signal.SIGSTOP)

    def seen(self) -> dict[str, list[float]]:
        """What the program wrote down at its end."""
        self._signal(signal.SIGCONT)
        try:
            self._process.wait(END_S)
            return dict(json.loads(self._out.read_text()))
        except (OSError, subprocess.TimeoutExpired) as error:
            raise turns.TurnsError("it did not get to its end") from error

    def hooks_s(self) -> float:
        found: dict[str, Any] = json.loads((self.run / "summary.json").read_text())["overhead"]
        return (found["hooks_ms"] or 0.0) / 1e3

    def close(self) -> None:
        self._player.close()
        if self.is_alive():
            self._signal(signal.SIGKILL)
            self._process.wait()

    def _signal(self, number: int) -> None:
        if self.is_alive():
            os.killpg(self._process.pid, number)


def measure(name: str, turn_count: int) -> Round:
    """One round of a subject."""
    with tempfile.TemporaryDirectory() as scratch:
        players = [
            _Player(name, turn_count, Path(scratch, who), who == "ours") for who in ("ours", "bare")
        ]
        try:
            for number in range(turn_count):
                for player in players if number % 2 == 0 else players[::-1]:
                    player.turn()
            ours, bare = (player.seen() for player in players)
            hooks_s = players[0].hooks_s()
        except (turns.TurnsError, OSError) as error:
            raise UnavailableError(str(error)) from error
        finally:
            for player in players:
                player.close()
    return Round(
        paired_ratios(ours["turn_s"], bare["turn_s"])[WARM_TURNS:],
        paired_ratios(ours["cpu_s"], bare["cpu_s"])[WARM_TURNS:],
        hooks_s / sum(ours["turn_s"]),
        statistics.median(bare["turn_s"]) / SUBJECTS[name].steps,
    )


def figures_of(rounds: Sequence[Round]) -> dict[str, Any]:
    """The figures of one subject over all its rounds."""
    measured = summary([ratio for one in rounds for ratio in one.ratios])
    printed = statistics.median(one.printed for one in rounds)
    return {
        "step_ms": statistics.median(one.step_s for one in rounds) * 1e3,
        "step_ratio": measured,
        "cpu_ratio": summary([ratio for one in rounds for ratio in one.cpu_ratios]),
        "measured_share": measured["median"] - 1.0,
        "printed_share": printed,
        "printed_factor": _factor(printed, measured["median"] - 1.0),
    }


def _factor(printed: float, measured: float) -> float:
    """How many times too large or too small; below the resolution all shares are the same."""
    one, other = max(printed, RESOLUTION), max(measured, RESOLUTION)
    return max(one / other, other / one)


def targets_of(subjects: dict[str, dict[str, Any]]) -> list[Target]:
    """What we promised of each subject, against what was measured."""
    found = []
    for name, figures in subjects.items():
        ratio = figures["step_ratio"]["median"]
        found.append(at_most(f"step of {name}, ratio to bare", ratio, SUBJECTS[name].limit))
        factor = figures["printed_factor"]
        found.append(at_most(f"printed cost of {name}, factor", factor, PRINTED_FACTOR))
    return found


def overview(subjects: dict[str, dict[str, Any]]) -> str:
    header = ("", "step ms", "step ×", "±", "CPU ×", "±", "measured %", "printed %", "factor")
    rows = [
        (
            name,
            f"{figures['step_ms']:.3f}",
            f"{figures['step_ratio']['median']:.4f}",
            f"{figures['step_ratio']['spread']:.4f}",
            f"{figures['cpu_ratio']['median']:.4f}",
            f"{figures['cpu_ratio']['spread']:.4f}",
            f"{figures['measured_share'] * 100:.2f}",
            f"{figures['printed_share'] * 100:.2f}",
            f"{figures['printed_factor']:.2f}",
        )
        for name, figures in subjects.items()
    ]
    return table(header, rows)


def measure_all(names: Sequence[str], rounds: int, turn_count: int) -> dict[str, dict[str, Any]]:
    """The figures of these subjects, in rounds."""
    found: dict[str, list[Round]] = {name: [] for name in names}
    for number in range(rounds):
        for name in names if number % 2 == 0 else reversed(names):
            found[name].append(measure(name, turn_count))
            one = figures_of(found[name][-1:])
            progress(
                f"  {name}: step × {one['step_ratio']['median']:.4f},"
                f" printed {one['printed_share'] * 100:.2f} %"
            )
    return {name: figures_of(rounds_of) for name, rounds_of in found.items()}
