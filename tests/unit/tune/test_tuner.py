"""The tuner on made-up programs: every run is a number that the test gives."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from stepscope.errors import UsageError
from stepscope.model.change import Change
from stepscope.model.trial import Measurement, Outcome, Trial, Verdict
from stepscope.tune.tuner import OutOfTime, Tuner

Names = tuple[str, ...]
LOSSES = tuple(1.0 / (step + 1) for step in range(40))


def change(name: str, alters: str = "", **settings: int) -> Change:
    return Change(name, f"change {name}", settings, (1.2, 1.4), alters=alters)


class MadeUp:
    """A program whose step takes `takes(names of the changes)` seconds, give or take some noise."""

    def __init__(
        self,
        takes: Callable[[Names], float | Measurement],
        proposals: Sequence[Sequence[Change]],
        runs: int = 10_000,
        noise: float = 0.01,
    ) -> None:
        self._takes, self._proposals, self._left = takes, list(proposals), runs
        self._random, self._noise = random.Random(1), noise
        self.order: list[Names] = []
        self.told: list[str] = []

    def candidates(self, kept: Sequence[Change]) -> Sequence[Change]:
        return self._proposals.pop(0) if self._proposals else []

    def measure(self, changes: Sequence[Change]) -> Measurement:
        if not self._left:
            raise OutOfTime
        self._left -= 1
        names = tuple(one.name for one in changes)
        self.order.append(names)
        found = self._takes(names)
        if isinstance(found, Measurement):
            return found
        step_s = found * (1.0 + self._random.gauss(0.0, self._noise))
        return Measurement(Outcome.MEASURED, step_s=step_s, steps=40, losses=LOSSES)

    def tell(self, text: str) -> None:
        self.told.append(text)

    def runs_left(self) -> int:
        return self._left


def of(tuning_trials: Sequence[Trial], name: str) -> Trial:
    return next(one for one in tuning_trials if one.change.name == name)


def test_a_change_that_halves_the_time_is_kept_and_one_that_does_nothing_is_not() -> None:
    bench = MadeUp(
        lambda names: 0.5 if "good" in names else 1.0, [[change("good"), change("idle")]]
    )
    tuning = Tuner(bench).run()
    assert [one.name for one in tuning.kept] == ["good"]
    assert of(tuning.trials, "idle").verdict in (Verdict.NO_GAIN, Verdict.INCONCLUSIVE)
    assert tuning.speedup is not None
    assert tuning.speedup.low < 2.0 < tuning.speedup.high
    assert tuning.speedup.middle == pytest.approx(2.0, rel=0.05)


def test_base_and_candidates_take_turns_there_and_back() -> None:
    bench = MadeUp(lambda _: 1.0, [[change("a"), change("b")]], runs=6)
    Tuner(bench).run()
    assert bench.order == [(), ("a",), ("b",), ("b",), ("a",), ()]


def test_a_change_that_makes_it_slower_is_given_up_after_one_round() -> None:
    bench = MadeUp(lambda names: 2.0 if names else 1.0, [[change("bad")]])
    tuning = Tuner(bench).run()
    assert not tuning.kept
    assert len(bench.order) == 2
    assert of(tuning.trials, "bad").verdict is Verdict.NO_GAIN


def test_a_change_that_pays_only_alone_is_dropped_beside_a_better_one() -> None:
    def takes(names: Names) -> float:
        return 0.5 if "best" in names else 0.8 if "other" in names else 1.0

    tuning = Tuner(MadeUp(takes, [[change("best"), change("other")]])).run()
    assert [one.name for one in tuning.kept] == ["best"]
    assert of(tuning.trials, "other").why == "no longer pays beside best"


def test_changes_that_add_up_are_kept_together_and_measured_as_one() -> None:
    def takes(names: Names) -> float:
        return (0.5 if "a" in names else 1.0) * (0.8 if "b" in names else 1.0)

    tuning = Tuner(MadeUp(takes, [[change("a"), change("b")]])).run()
    assert {one.name for one in tuning.kept} == {"a", "b"}
    assert tuning.speedup is not None
    assert tuning.speedup.middle == pytest.approx(2.5, rel=0.06)


def test_what_a_second_look_finds_is_tried_on_top_of_what_is_kept() -> None:
    def takes(names: Names) -> float:
        return {(): 1.0, ("a",): 0.6, ("a", "b"): 0.3}[names]

    tuning = Tuner(MadeUp(takes, [[change("a")], [change("b")]])).run()
    assert [one.name for one in tuning.kept] == ["a", "b"]
    assert tuning.speedup is not None
    assert tuning.speedup.middle == pytest.approx(1 / 0.3, rel=0.06)


def test_of_two_settings_of_a_change_the_better_one_is_kept() -> None:
    class ByWorkers(MadeUp):
        def measure(self, changes: Sequence[Change]) -> Measurement:
            workers = changes[0].settings["workers"] if changes else 0
            self._takes = lambda _: {0: 1.0, 1: 0.7, 2: 0.5}[workers]
            return super().measure(changes)

    bench = ByWorkers(lambda _: 1.0, [[change("loader", workers=1), change("loader", workers=2)]])
    tuning = Tuner(bench).run()
    assert [one.settings for one in tuning.kept] == [{"workers": 2}]
    assert tuning.trials[0].why == "another setting of it is faster"


def test_of_settings_that_are_as_fast_the_one_with_fewest_workers_is_kept() -> None:
    proposals = [change("loader", num_workers=4), change("loader", num_workers=2)]
    bench = MadeUp(lambda names: 0.5 if names else 1.0, [proposals], noise=0.001)
    assert [one.settings for one in Tuner(bench).run().kept] == [{"num_workers": 2}]


@pytest.mark.parametrize("outcome", [Outcome.CRASHED, Outcome.HUNG, Outcome.OUT_OF_MEMORY])
def test_a_trial_that_fails_is_a_result_and_the_next_one_goes_on(outcome: Outcome) -> None:
    def takes(names: Names) -> float | Measurement:
        if "breaks" in names:
            return Measurement(outcome, "it said why")
        return 0.5 if names else 1.0

    tuning = Tuner(MadeUp(takes, [[change("breaks"), change("good")]])).run()
    assert [one.name for one in tuning.kept] == ["good"]
    failed = of(tuning.trials, "breaks")
    assert failed.verdict is Verdict.FAILED
    assert failed.why == f"{outcome.value}: it said why"


def test_a_faster_program_that_learns_something_else_is_not_kept() -> None:
    def takes(names: Names) -> float | Measurement:
        if not names:
            return 1.0
        other = tuple(1.1 * loss for loss in LOSSES)
        return Measurement(Outcome.MEASURED, step_s=0.5, steps=40, losses=other)

    tuning = Tuner(MadeUp(takes, [[change("wrong")]])).run()
    assert not tuning.kept
    assert "losses differ" in of(tuning.trials, "wrong").why


class Drawing(MadeUp):
    """A program whose step takes 1 s, and step_s with a loader that draws other random numbers.
    losses: factors on those of the program as it is, by the names of the changes."""

    def __init__(
        self,
        losses: dict[Names, float],
        seeded: Outcome = Outcome.MEASURED,
        step_s: float = 0.5,
        runs: int = 10_000,
    ) -> None:
        takes = lambda names: step_s if "loader" in names else 1.0  # noqa: E731
        super().__init__(takes, [[change("loader")]], runs)
        self._losses, self._seeded = losses, seeded

    def measure(self, changes: Sequence[Change]) -> Measurement:
        run = super().measure(changes)
        names = self.order[-1]
        return Measurement(
            self._seeded if "batch-seeds" in names else run.outcome,
            step_s=run.step_s,
            losses=tuple(self._losses[names] * loss for loss in LOSSES),
        )


BASE: Names = ()
SEEDED = ("batch-seeds",)
BOTH = ("loader", "batch-seeds")


def test_what_draws_other_numbers_is_compared_with_batches_drawn_from_the_same_seeds() -> None:
    bench = Drawing({BASE: 1.0, ("loader",): 1.3, SEEDED: 1.1, BOTH: 1.1})
    assert [one.name for one in Tuner(bench).run().kept] == ["loader"]
    assert bench.order.count(SEEDED) == bench.order.count(BOTH) == 1


def test_a_loader_that_is_not_faster_is_not_compared_further() -> None:
    bench = Drawing({BASE: 1.0, ("loader",): 1.3}, step_s=1.5)
    assert not Tuner(bench).run().kept


def test_what_could_not_be_compared_before_the_time_ran_out_is_not_kept() -> None:
    bench = Drawing({BASE: 1.0, ("loader",): 1.3}, runs=4)
    tuning = Tuner(bench).run()
    assert not tuning.kept
    assert of(tuning.trials, "loader").verdict is Verdict.INCONCLUSIVE


def test_a_loader_that_changes_more_than_random_numbers_is_not_kept() -> None:
    # GIVEN losses that lie between those of other random numbers, but follow from other batches
    bench = Drawing({BASE: 1.0, ("loader",): 1.05, SEEDED: 1.1, BOTH: 1.05})
    tuning = Tuner(bench).run()
    assert not tuning.kept
    # 0.05 / 1.1 of the losses that it is compared with
    assert "losses differ by 0.045 of" in of(tuning.trials, "loader").why


@pytest.mark.parametrize(("far", "kept"), [(1.025, True), (1.04, False)])
def test_random_numbers_out_of_reach_may_move_losses_as_far_as_others_do(
    far: float, kept: bool
) -> None:
    """Other random numbers move them by 1 %, and 3 times that is the limit."""
    losses = {BASE: 1.0, ("loader",): far, SEEDED: 1.01}
    bench = Drawing(losses, seeded=Outcome.NOT_APPLIED)
    assert bool(Tuner(bench).run().kept) is kept


def test_a_program_is_run_again_before_a_difference_is_blamed_on_a_change() -> None:
    # GIVEN a program whose first run is 1 % off all others, with and without changes
    class Unsteady(MadeUp):
        def measure(self, changes: Sequence[Change]) -> Measurement:
            run = super().measure(changes)
            losses = tuple(loss if len(self.order) == 1 else 1.01 * loss for loss in LOSSES)
            return Measurement(run.outcome, step_s=run.step_s, losses=losses)

    bench = Unsteady(lambda names: 0.5 if names else 1.0, [[change("gc")]])
    assert [one.name for one in Tuner(bench).run().kept] == ["gc"]
    assert bench.order[:3] == [(), ("gc",), ()]


def test_what_may_change_results_is_tried_only_where_it_is_allowed() -> None:
    proposals = [change("float32", alters="precision")]
    bench = MadeUp(lambda _: 1.0, [proposals])
    tuning = Tuner(bench, lambda one: f"allow it with --allow {one.alters}").run()
    assert not bench.order
    assert tuning.trials[0].why == "allow it with --allow precision"
    assert tuning.trials[0].verdict is Verdict.NOT_TRIED


def test_what_was_proved_before_the_time_ran_out_is_kept() -> None:
    bench = MadeUp(lambda names: 0.2 if names else 1.0, [[change("a")], [change("b")]], runs=5)
    tuning = Tuner(bench).run()
    assert [one.name for one in tuning.kept] == ["a"]
    assert any("time was used up" in note for note in tuning.notes)


def test_where_time_is_short_the_most_promising_is_brought_to_an_end() -> None:
    takes = {(): 1.0, ("a",): 0.9, ("b",): 0.5, ("c",): 0.8}
    proposals = [[change(name) for name in "abc"]]
    bench = MadeUp(lambda names: takes[names], proposals, runs=6, noise=0.001)
    tuning = Tuner(bench).run()
    assert bench.order[4:6] == [("b",), ()]
    assert [one.name for one in tuning.kept] == ["b"]
    assert of(tuning.trials, "a").why == "time was short, and others were more promising"


def test_small_and_unknown_gains_wait_until_a_large_one_is_there() -> None:
    large = Change("large", "", {}, (2.0, 2.0))
    small, unknown = Change("small", "", {}, (1.1, 1.1)), Change("unknown", "")
    bench = MadeUp(lambda names: 0.5 if "large" in names else 1.0, [[unknown, small, large]])
    bench.candidates = lambda kept: [small, unknown] if kept else [unknown, small, large]  # type: ignore[method-assign]
    tuning = Tuner(bench).run()
    assert [trial.change.name for trial in tuning.trials] == ["large", "small", "unknown"]
    assert bench.order[:2] == [(), ("large",)]


def test_an_interrupt_keeps_what_was_proved_by_then() -> None:
    class Interrupted(MadeUp):
        def candidates(self, kept: Sequence[Change]) -> Sequence[Change]:
            if kept:
                raise KeyboardInterrupt
            return super().candidates(kept)

    tuning = Tuner(Interrupted(lambda names: 0.2 if names else 1.0, [[change("a")]])).run()
    assert [one.name for one in tuning.kept] == ["a"]
    assert any("Interrupted" in note for note in tuning.notes)


def test_noisy_runs_are_made_again_a_few_times_and_that_is_said() -> None:
    class Noisy(MadeUp):
        def measure(self, changes: Sequence[Change]) -> Measurement:
            run = super().measure(changes)
            return Measurement(
                run.outcome, step_s=run.step_s, losses=LOSSES, foreign_cores=1.0, pressure=0.5
            )

    bench = Noisy(lambda names: 0.5 if names else 1.0, [[change("a")]])
    tuning = Tuner(bench).run()
    assert [one.name for one in tuning.kept] == ["a"]
    assert any(note.startswith("4 runs were made again") for note in tuning.notes)


def test_a_program_that_does_not_run_as_it_is_cannot_be_tuned() -> None:
    bench = MadeUp(lambda _: Measurement(Outcome.CRASHED, "KeyError: 3"), [[change("a")]])
    with pytest.raises(UsageError, match="KeyError: 3"):
        Tuner(bench).run()


def test_a_healthy_program_is_left_alone() -> None:
    bench = MadeUp(lambda _: 1.0, [])
    tuning = Tuner(bench).run()
    assert not tuning.trials
    assert not bench.order


def test_where_there_is_no_gain_few_claim_one() -> None:
    """Two in a hundred would be luck; the runs of a program differ by 4 % here."""
    claimed = 0
    for seed in range(200):
        bench = MadeUp(lambda _: 1.0, [[change("idle")]], noise=0.04)
        bench._random.seed(seed)
        claimed += bool(Tuner(bench).run().kept)
    assert claimed <= 10
