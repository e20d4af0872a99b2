"""What `stepscope run` sees in the stacks of a program whose times are known."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from stepscope.analyze.loop import Loop
from stepscope.analyze.stacks import StackFold, user_location
from stepscope.model import names
from stepscope.model.details import PhaseStacks
from stepscope.model.phases import Phase
from stepscope.store.frames import FramesReader
from tests.integration.joined import SCRIPTS, Ran, run_joined

pytestmark = pytest.mark.extended
HOT = SCRIPTS / "hot.py"
# A worker that was not forked from the program shows its first sign of life to this collector.
WAKES = pytest.mark.skipif(
    find_spec("stepscope.collect.workers") is None, reason="workers are not hooked yet"
)


def stacks_of(folder: Path, ran: Ran) -> tuple[PhaseStacks, ...]:
    fold = StackFold()
    for path in sorted(folder.glob("rank-*/*.frames")):
        reader = FramesReader(path)
        for batch in reader.read_new():
            assert reader.process is not None
            fold.update(reader.process, batch)
    return fold.get([one.loop for one in ran.processes if isinstance(one.loop, Loop)])


def line_of(text: str) -> int:
    """The line that comes after the one with this text."""
    return 2 + next(n for n, line in enumerate(HOT.read_text().splitlines()) if text in line)


def shares(stacks: PhaseStacks) -> dict[str, float]:
    found: dict[str, float] = {}
    for line in stacks.lines:
        function = line.location.function or ""
        found[function] = found.get(function, 0.0) + line.share
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "start",
    [
        "fork",
        pytest.param("spawn", marks=WAKES),
        pytest.param("forkserver", marks=WAKES),
        "in the main process",
    ],
)
def test_forward_opens_into_its_functions_and_the_wait_into_the_dataset(
    start: str, tmp_path: Path
) -> None:
    loading = ["--workers", "0"] if " " in start else ["--start", start]
    ran = run_joined(tmp_path / "run", ["hot.py", *loading])
    assert ran.exit_code == 0, ran.stderr
    assert not ran.training.named(names.HOOK_FAILED)
    found = stacks_of(tmp_path / "run", ran)
    forward = next(one for one in found if one.phase == Phase.FORWARD)
    assert forward.where == "main"
    wall_ms = ran.loop.phases[Phase.FORWARD].wall_ns / 1e6
    assert forward.ms == pytest.approx(wall_ms, rel=0.1)
    # Some 180 samples: chance alone moves such a share by 0.03 to either side.
    assert shares(forward)["dear"] == pytest.approx(0.7, abs=0.11)
    assert shares(forward)["cheap"] == pytest.approx(0.3, abs=0.11)
    dearest, share = user_location(found, Phase.FORWARD, "main") or (None, 0.0)
    assert dearest is not None
    assert (dearest.file, dearest.function) == (str(HOT), "dear")
    assert dearest.line == line_of("end = time.thread_time_ns() + 21")
    assert share == pytest.approx(0.7, abs=0.12)

    where = "main" if " " in start else "worker"
    of_main = (Phase.INPUT_WAIT.value,)
    fetching = [one.phase for one in found if one.where == where == "worker"] or of_main
    dataset, share = user_location(found, fetching, where) or (None, 0.0)
    assert dataset is not None
    assert (dataset.file, dataset.function) == (str(HOT), "decode")
    assert dataset.line == line_of("def decode")
    assert share > 0.8 * _users_share([one for one in found if one.phase in fetching])


def _users_share(stacks: list[PhaseStacks]) -> float:
    """Of their time, in any line of the script: how much a worker waits depends on the machine."""
    ms = sum(one.ms * line.share for one in stacks for line in one.lines if line.location.file)
    return ms / sum(one.ms for one in stacks)


@pytest.mark.slow
@pytest.mark.parametrize(("level", "hz"), [("production", 20), ("basic", 100), ("detailed", 200)])
def test_the_level_says_how_often_it_looks(level: str, hz: int, tmp_path: Path) -> None:
    ran = run_joined(
        tmp_path / "run", ["hot.py", "--steps", "40", "--workers", "0"], STEPSCOPE_LEVEL=level
    )
    main = ran.training.process.pid
    rows = [row for row in ran.training.named(names.STACK) if row.track == main]
    running = [row.value for row in rows if row.text == names.FORWARD]  # never idle in there
    assert 1e9 * len(running) / sum(running) == pytest.approx(hz, rel=0.35)
