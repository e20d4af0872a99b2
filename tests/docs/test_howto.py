"""The examples of the how-to pages run, in order, and print what the pages say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.run_page import python_blocks

pytestmark = pytest.mark.timed

ROOT = Path(__file__).parents[2]
HOWTO = ROOT / "docs" / "howto"


def run(page: str, folder: Path) -> str:
    """What a page printed."""
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.docs.run_page", str(HOWTO / page)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": paths},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What the page printed, and the folder that it ran in."""
    folder = tmp_path_factory.mktemp("in-code")
    return run("in-code.md", folder), folder


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp("memory-profiler")
    return run("memory-profiler.md", folder), folder


@pytest.mark.parametrize(
    "line",
    [
        r"512 bytes now, 4608 at most",
        r"\{'GPU': 0, 'Pinned': 512\}",
        r"512 bytes at 0xa000, allocated in <module>, line 13",
        r"1 unknown_free 0x1000",
        r"REALLOCATION 512 4608",
        r"DEALLOCATION 4096 512",
        r"77",
        r"1 collection, generations \[2\]",
    ],
)
def test_the_page_of_the_memory_profiler_prints(memory: tuple[str, Path], line: str) -> None:
    printed, _ = memory
    assert re.search(rf"^{line}$", printed, re.MULTILINE), printed


def test_the_folder_of_the_page_is_a_run(memory: tuple[str, Path]) -> None:
    _, folder = memory
    assert list((folder / "memory-run").glob("rank-00000/*.frames"))


@pytest.fixture(scope="module")
def checkpointing(tmp_path_factory: pytest.TempPathFactory) -> str:
    return run("checkpointing.md", tmp_path_factory.mktemp("checkpointing"))


@pytest.mark.parametrize(
    "line",
    [
        r"Total Events: 60",
        r"Peak Of Memory: \d+\.\d\dKB lower than without checkpoints",
        r"60 events",
        r"block 2: 5 recomputations, 1310720 bytes saved",  # 5 × 2 results of 128 × 256 float32
        r"\{'offload': 1\}",
        r"4096 bytes are in use, more than 4000",
        r"\[High\] Reduce recomputation for layer 'encoder': .* recomputed 3 times .*",
        r"Could save 60ms of recomputation time",
        r"encoder",
    ],
)
def test_the_page_of_checkpointing_prints(checkpointing: str, line: str) -> None:
    assert re.search(rf"^{line}$", checkpointing, re.MULTILINE), checkpointing


@pytest.fixture(scope="module")
def bottlenecks(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp("bottlenecks")
    return run("bottlenecks.md", folder), folder


@pytest.mark.parametrize(
    "line",
    [
        r"augment: severity \d\.\d\d, \d+% of the session",
        r"input-(?:cpu|io): severity \d\.\d\d, \d+% of the session",
        r"tokenising",
        r"Best: batch_size=\d+, num_workers=\d",
        r"cpu_bound_preprocessing",
        r"\d+\.\d+ ms a call",
        r"A known input costs \d+% of a call",
        r"\d+ MB",
        r"nan|\d+\.\d MB on the GPU",
    ],
)
def test_the_page_of_bottlenecks_prints(bottlenecks: tuple[str, Path], line: str) -> None:
    printed, _ = bottlenecks
    assert re.search(rf"^(?:{line})$", printed, re.MULTILINE), printed


def test_the_reports_are_where_the_page_says(bottlenecks: tuple[str, Path]) -> None:
    _, folder = bottlenecks
    found = sorted(path.name for path in (folder / "bottleneck_reports").iterdir())
    assert [name.rpartition("_")[2] for name in found if name.startswith("training_")] == [
        "memory.png",
        "report.csv",
        "report.json",
        "report.md",
        "visualizations.png",
    ]
    assert any(name.startswith("data_loading_") for name in found)


def test_the_first_example_gives_a_summary_and_the_time(ran: tuple[str, Path]) -> None:
    printed, _ = ran
    first, second, *_ = printed.splitlines()
    assert re.fullmatch(r"Peak RAM: \d+ MB, Wall Time: \d+ms, [CG]PU Util: \d+%", first)
    assert re.fullmatch(r"Training took 0\.\d s", second)


@pytest.mark.parametrize(
    "line",
    [
        r"training: 0\.\d\d s \(\d+%\)",
        r"It grows by \d+\.\d MB a second:",
        r"26,017,792 FLOPs, [\d,]+ a second",  # 2·32·784·512 + 2·32·512·10
        r"It failed: the disk is gone",
        r"0\.\d\d s up to there; partial: True",
        r"memory_interval=-1 is not possible: .*",
        r"There are no metrics of 'never ran'\. .*",
        r"2",
    ],
)
def test_the_page_prints(ran: tuple[str, Path], line: str) -> None:
    printed, _ = ran
    assert re.search(rf"^{line}$", printed, re.MULTILINE)


def test_the_saved_run_is_where_the_page_says_and_can_be_reported(ran: tuple[str, Path]) -> None:
    _, folder = ran
    assert (folder / "runs" / "from-code" / "summary.json").is_file()
    done = subprocess.run(
        [sys.executable, "-m", "stepscope", "report", "from-code"],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
    )
    assert "leak_check" in done.stdout


def test_a_block_keeps_the_line_that_it_has_in_the_page() -> None:
    page = "text\n```python\na = 1\n```\n\n```\nnot this\n```\n```python\nb = 2\n```\n"
    assert python_blocks(page) == [(2, "a = 1\n"), (9, "b = 2\n")]


def test_the_page_of_plans_finds_one_that_fits(tmp_path: Path) -> None:
    assert run("plan.md", tmp_path) == "True True\n"
    assert (tmp_path / "plan.json").exists()


def test_the_page_of_monitors_prints_a_summary_and_an_alert(tmp_path: Path) -> None:
    printed = run("monitor-in-code.md", tmp_path)
    for line in (
        r"Avg CPU: \d+\.\d%, avg memory: \d\.\d\dGB",
        r"\d+ steps",
        r"0\.9 queue: queue_length is 250, above 100",
        r"\['firing', 'resolved'\]",
    ):
        assert re.search(rf"^{line}$", printed, re.MULTILINE), printed


@pytest.mark.extended
def test_the_page_of_optimising_in_code_runs_and_tells_what_was_measured(tmp_path: Path) -> None:
    printed = run("optimize-in-code.md", tmp_path)
    for line in (
        r"The loop waited \d+% of its time for its data\.",
        r"input-\w+: .+",
        r"data loading of _Images: .+",
        r"preprocessing of normalise: .+",
        r"memory: .+",
        r"cpu: .+",
        r"gpu: as it was\. .+|gpu: .+",
    ):
        assert re.search(rf"^(?:{line})$", printed, re.MULTILINE), printed
