"""Real training loops of every form: the same results as bare, every step found, all time told."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepscope.model import names
from stepscope.model.phases import Phase
from tests.integration.joined import Ran, run_bare, run_joined

pytestmark = pytest.mark.timed

# script and arguments → the steps it makes
FORMS: dict[str, tuple[list[str], int]] = {
    "plain": (["plain.py"], 20),
    "accumulation": (["accumulation.py"], 18),
    "gan": (["gan.py"], 24),
    "critic learns more often": (["critic.py"], 30),
    "an optimizer per layer": (["per_layer.py"], 20),
    "optimizer in backward": (["in_backward.py"], 20),
    "scaler that skips": (["scaler.py"], 20),
    "lbfgs": (["lbfgs.py"], 12),
    "evaluation with a loader": (["evaluation.py", "--form", "loader"], 30),
    "evaluation without one": (["evaluation.py", "--form", "tensor"], 30),
    "evaluation of an average": (["evaluation.py", "--form", "ema"], 30),
    "no loader": (["no_loader.py"], 20),
    "iterable": (["iterable.py"], 30),
    "fork workers": (["workers.py", "--start", "fork"], 24),
    "spawn workers": (["workers.py", "--start", "spawn"], 24),
    "forkserver workers": (["workers.py", "--start", "forkserver"], 24),
    "persistent workers": (["workers.py", "--persistent"], 24),
    "compiled": (["compiled.py"], 20),
    "inference": (["inference.py"], 24),
    "inference without a loader": (["inference.py", "--no-loader"], 24),
    "by hand": (["manual.py"], 15),
    "saves": (["saves.py"], 20),
}
_REFERENCE = {"spawn workers": "fork workers", "forkserver workers": "fork workers"}


@pytest.fixture(scope="module")
def bare() -> dict[str, str]:
    """What each form prints when nobody looks."""
    ways = {form: FORMS[_REFERENCE.get(form, form)][0] for form in FORMS}
    commands = list({" ".join(command): command for command in ways.values()}.values())
    told = dict(zip(map(" ".join, commands), run_bare(commands), strict=True))
    return {form: told[" ".join(command)] for form, command in ways.items()}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ran]:
    """Each form as it ran below the bootstrap, filled in as tests ask for it."""
    return {}


@pytest.fixture
def joined(request: pytest.FixtureRequest, ran: dict[str, Ran], tmp_path: Path) -> Ran:
    form: str = request.param
    if form not in ran:
        ran[form] = run_joined(tmp_path / "run", FORMS[form][0])
    return ran[form]


def each_form() -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("joined", "form"), [(form, form) for form in FORMS], indirect=["joined"], ids=list(FORMS)
    )


def one_form(form: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("joined", [form], indirect=True)


@each_form()
def test_a_loop_gives_the_same_results_and_is_told_completely(
    joined: Ran, form: str, bare: dict[str, str]
) -> None:
    assert joined.stderr == ""
    assert joined.exit_code == 0
    assert joined.stdout == bare[form], "the same losses, to the bit"

    loop = joined.loop
    assert loop.steps == FORMS[form][1]
    told_ns = sum(time.wall_ns for time in loop.phases.values())
    assert told_ns == pytest.approx(loop.wall_ns, rel=0.01)
    assert sum(loop.durations_ns) <= loop.wall_ns
    assert loop.share(Phase.UNEXPLAINED) < 0.01
    assert joined.training.named(names.HOOK_FAILED) == []


@one_form("scaler that skips")
def test_skipped_steps_are_counted(joined: Ran) -> None:
    assert joined.loop.skipped == 4


@one_form("accumulation")
def test_micro_batches_are_counted(joined: Ran) -> None:
    assert joined.loop.micro_batches == 72


@pytest.mark.parametrize(
    ("joined", "batches"),
    [
        ("evaluation with a loader", 15),
        ("evaluation without one", 3),
        ("evaluation of an average", 15),
    ],
    indirect=["joined"],
)
def test_evaluation_is_told_apart_from_training(joined: Ran, batches: int) -> None:
    evaluation_ns = joined.loop.phases[Phase.EVALUATION].wall_ns
    # Without a loader only the forward itself is evaluation: the sleep before it is Python's.
    slept_ns = batches * 20e6 if batches == 15 else 0
    assert slept_ns <= evaluation_ns < slept_ns + 100e6
    assert evaluation_ns > 0


@one_form("saves")
def test_saves_are_told_with_their_bytes(joined: Ran) -> None:
    assert joined.loop.saves == 4
    assert joined.loop.saved_bytes > 4 * 512 * 16 * 4
    assert joined.loop.phases[Phase.CHECKPOINT_SAVE].wall_ns > 0


@one_form("spawn workers")
def test_only_processes_that_train_or_load_leave_something(joined: Ran) -> None:
    others = [p for p in joined.processes if p is not joined.training]
    assert others
    assert all(p.named(names.WORKER) for p in others)
    assert all(len(p.named(names.PROCESS_EXIT)) == 1 for p in others)


@one_form("plain")
def test_the_process_tells_what_joining_cost(joined: Ran) -> None:
    own = {row.name: row.value for row in joined.training.rows if row.name.startswith("stepscope")}
    assert 0 < own[names.OWN_PROBE_COST_NS] < own[names.OWN_CALL_COST_NS] < 1e5
    assert own[names.OWN_STARTUP_NS] > 0  # how much it may be: benchmarks/overhead.py
    assert joined.training.rows[-1].name
    assert len(joined.training.named(names.PROCESS_EXIT)) == 1


@pytest.mark.parametrize(
    ("how", "exit_code", "last_words"),
    [("exception", 1, "ValueError: the data is bad"), ("exit", 3, ""), ("interrupt", -2, "")],
)
def test_a_program_that_ends_in_mid_step_ends_as_it_would_bare(
    how: str, exit_code: int, last_words: str, tmp_path: Path
) -> None:
    ran = run_joined(tmp_path / "run", ["ends_badly.py", "--how", how])

    assert ran.exit_code == exit_code
    assert ran.stderr.endswith(last_words + "\n" if last_words else ran.stderr[-1:])
    assert len(ran.stdout.splitlines()) == 8
    assert ran.loop.steps == 8
    assert [row.flags for row in ran.training.named(names.FORWARD)] == [0] * 8 + [1]


# place → phase, epochs, samples in each, and how often the loop slept there
PLANTED = {
    "dataset": (Phase.INPUT_WAIT, 3, 8, 24),
    "before-forward": (Phase.PYTHON_BETWEEN, 3, 8, 24),
    "forward": (Phase.FORWARD, 3, 8, 24),
    "backward-hook": (Phase.BACKWARD, 3, 8, 24),
    "optimizer": (Phase.OPTIMIZER, 3, 8, 24),
    # The last one of these comes after the last step, where the loop has ended.
    "after-step": (Phase.PYTHON_BETWEEN, 3, 8, 23),
    "between-epochs": (Phase.PYTHON_BETWEEN, 17, 2, 16),
}


@pytest.mark.parametrize("place", PLANTED)
def test_a_sleep_of_30_ms_is_found_where_it_was_planted(place: str, tmp_path: Path) -> None:
    phase, epochs, samples, times = PLANTED[place]
    size = ["--epochs", str(epochs), "--samples", str(samples)]
    ran = run_joined(tmp_path / "run", ["planted.py", "--where", place, "--ms", "30", *size])

    assert ran.exit_code == 0, ran.stderr
    assert ran.loop.steps == epochs * samples
    found_ns = ran.loop.phases[phase].wall_ns
    assert found_ns == pytest.approx(times * 30e6, rel=0.10)
