"""How processes join: quietly, whatever they are and whatever fails, as if we were not there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from stepscope.model import names
from tests.integration.joined import (
    SCRIPTS,
    environment,
    join_environment,
    read_processes,
    run_bare,
    run_joined,
)

pytestmark = pytest.mark.timed

LOOK_AROUND = """
import sys
mine = sys.modules.get("sitecustomize")
print(getattr(mine, "__file__", None), getattr(mine, "said", None))
print([entry for entry in sys.path if "bootstrap" in entry])
print([name for name in sys.modules if name.startswith("stepscope.record")])
"""

TRAIN = """
import torch
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train(steps):
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
"""


def python(
    *arguments: str, env: dict[str, str], cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env=env, cwd=cwd, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    return folder


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A folder of the user's that stands on PYTHONPATH after ours."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    return folder


def below(run: Path, theirs: Path) -> dict[str, str]:
    joining = join_environment(run)
    return {**joining, "PYTHONPATH": f"{joining['PYTHONPATH']}:{theirs}"}


@pytest.mark.parametrize("way", ["script", "module", "command"])
def test_the_users_own_sitecustomize_runs_in_its_own_name(
    way: str, run: Path, theirs: Path
) -> None:
    (theirs / "sitecustomize.py").write_text("import sys\nsaid = __name__\n")
    (theirs / "looks.py").write_text(LOOK_AROUND)
    arguments = {
        "script": [str(theirs / "looks.py")],
        "module": ["-m", "looks"],
        "command": ["-c", LOOK_AROUND],
    }

    done = python(*arguments[way], env=below(run, theirs))

    assert done.stderr == ""
    assert done.stdout.splitlines() == [f"{theirs / 'sitecustomize.py'} sitecustomize", "[]", "[]"]


def test_without_one_things_are_as_if_we_had_not_been_there(run: Path) -> None:
    look = "import sys; print(sys.modules.get('sitecustomize'), sys.path, sys.flags)"

    joined, bare = (
        python("-c", look, env=join_environment(run)),
        python("-c", look, env=environment()),
    )

    assert joined.stdout == bare.stdout
    assert joined.stderr == bare.stderr == ""


@pytest.mark.parametrize(
    "source",
    ["raise ValueError('mine')", "import absent_module", "raise SystemExit(5)", "syntax error"],
)
def test_one_that_fails_fails_as_it_would_bare(source: str, run: Path, theirs: Path) -> None:
    (theirs / "sitecustomize.py").write_text(source)

    joined = python("-c", "print('on')", env=below(run, theirs))
    bare = python("-c", "print('on')", env=environment(PYTHONPATH=str(theirs)))

    said = [line for line in joined.stderr.splitlines() if not line.startswith(" ")]
    expected = [line for line in bare.stderr.splitlines() if not line.startswith(" ")]
    assert (joined.returncode, joined.stdout, said) == (bare.returncode, bare.stdout, expected)


def test_a_stepscope_that_cannot_be_imported_is_passed_over(run: Path, theirs: Path) -> None:
    (theirs / "stepscope").mkdir()
    (theirs / "stepscope" / "__init__.py").write_text("raise RuntimeError('broken install')")
    quiet = {**below(run, theirs), "STEPSCOPE_DEBUG": ""}

    done, told = (python("-c", "print('on')", env=env) for env in (quiet, below(run, theirs)))

    assert (done.stdout, done.stderr, done.returncode) == ("on\n", "", 0)
    assert told.stdout == "on\n"
    assert told.stderr == "stepscope: could not join: RuntimeError('broken install')\n"


def test_a_process_without_a_loop_leaves_nothing(run: Path) -> None:
    done = python("-c", "import torch; print(torch.ones(2).sum())", env=join_environment(run))

    assert done.stdout == "tensor(2.)\n"
    assert list(run.iterdir()) == []


def test_the_rank_names_the_folder(run: Path) -> None:
    done = python(
        "-c", TRAIN + "train(3)", env={**join_environment(run), "RANK": "3", "WORLD_SIZE": "8"}
    )

    assert done.returncode == 0, done.stderr
    (process,) = read_processes(run)
    assert (process.process.rank, process.process.world_size) == (3, 8)
    assert [path.name for path in run.iterdir()] == ["rank-00003"]


def test_forked_children_write_files_of_their_own(run: Path) -> None:
    program = TRAIN + (
        "import multiprocessing\n"
        "train(2)\n"
        "child = multiprocessing.get_context('fork').Process(target=train, args=(5,))\n"
        "child.start(); child.join()\n"
        "train(1)\n"
    )

    done = python("-c", program, env=join_environment(run))

    assert (done.returncode, done.stderr) == (0, "")
    parent, child = sorted(read_processes(run), key=lambda p: p.process.monotonic_ns)
    assert child.process.parent_pid == parent.process.pid
    assert len(parent.named(names.OPTIMIZER_STEP)) == 3
    assert len(child.named(names.OPTIMIZER_STEP)) == 5
    assert len(child.named(names.PROCESS_EXIT)) == 1


@pytest.mark.slow
def test_ranks_of_torchrun_join_one_by_one(run: Path, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAIN + "train(4)")

    done = python(
        "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script),
        env=join_environment(run),
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    ranks = {p.process.rank: len(p.named(names.OPTIMIZER_STEP)) for p in read_processes(run)}
    assert ranks == {0: 4, 1: 4}


BREAKS_EVERYTHING = """
from stepscope.record.recorder import Recorder
def broken(*args):
    raise RuntimeError("broken on purpose")
made = Recorder.__init__
def init(self, *args):
    made(self, *args)
    for call in ("begin", "end", "complete", "is_open"):
        setattr(self, call, broken)
Recorder.__init__ = init
"""


def test_collectors_that_raise_on_every_call_change_nothing_and_are_reported(
    run: Path, theirs: Path
) -> None:
    (theirs / "sitecustomize.py").write_text(BREAKS_EVERYTHING)
    path = below(run, theirs)["PYTHONPATH"]

    ran = run_joined(run, ["plain.py"], PYTHONPATH=path)

    assert (ran.exit_code, ran.stderr) == (0, "")
    assert ran.stdout == run_bare([["plain.py"]])[0]
    (process,) = ran.processes
    reported = {row.text.partition(":")[0] for row in process.named(names.HOOK_FAILED)}
    assert {names.FORWARD, names.BACKWARD, names.OPTIMIZER_STEP, names.INPUT_NEXT} <= reported


def test_a_run_folder_that_cannot_be_written_does_not_disturb(tmp_path: Path) -> None:
    ran = run_joined(tmp_path / "run", ["no_loader.py"], STEPSCOPE_RUN="/proc/nowhere")

    assert (ran.exit_code, ran.stderr) == (0, "")
    assert len(ran.stdout.splitlines()) == 20


def test_the_twin_records_the_same(tmp_path: Path) -> None:
    ran = run_joined(tmp_path / "run", ["no_loader.py"], STEPSCOPE_CORE="python")

    assert (ran.exit_code, ran.stderr) == (0, "")
    assert ran.training.process.core == "python"
    assert ran.loop.steps == 20


_RUN_BY = (
    "test_capture.py",
    "test_checkpoint_profiling.py",
    "test_descriptors.py",
    "test_loops.py",
    "test_memory_profiler.py",
    "test_sampled_run.py",
    "test_stacks.py",
    "test_watch_run.py",
)


def test_the_scripts_are_all_run() -> None:
    tests = [Path(__file__).parent / name for name in _RUN_BY]
    used = "".join(path.read_text() for path in tests)

    assert [s.name for s in sorted(SCRIPTS.glob("*.py")) if s.stem not in used] == []
