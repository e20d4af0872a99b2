"""How the benchmark of gains counts, and how it is taken up again."""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gains import in_turns, jobs_of, options_of
from gains_cases import HEALTHY, PAIRS, Kind, Script
from gains_counts import Gain, Saving, loss_error, rounds_for, share_of_saving, targets_of
from gains_jobs import Job, Left, work
from gains_programs import Failed, Tuned, wall_s
from gains_records import Records
from gains_tables import result_of, table_of
from harness import Target
from stepscope.model.change import Change
from stepscope.model.trial import Speedup, Trial, Tuning, Verdict

TWICE = {"original": [4.0, 6.0], "twin": [2.0, 3.0], "tuned": [2.0, 3.0]}


def gain(name: str = "x", kind: Kind = Kind.TRAINING, **walls_s: Sequence[float]) -> Gain:
    return Gain(name, kind, walls_s or TWICE, kept=("gc",))


def named(targets: Sequence[Target], name: str) -> Target:
    return next(target for target in targets if name in target.name)


class TestShares:
    def test_the_share_is_counted_in_time(self) -> None:
        # GIVEN a twin that takes half, tuning that takes 0.55 of the time
        assert share_of_saving(2.0, 1 / 0.55) == pytest.approx(0.45 / 0.5)

    def test_who_is_slower_than_before_has_saved_less_than_nothing(self) -> None:
        assert share_of_saving(2.0, 0.5) == pytest.approx(-2.0)

    def test_there_is_no_share_of_nothing(self) -> None:
        assert share_of_saving(0.99, 1.5) is None

    def test_each_round_is_compared_with_itself(self) -> None:
        # GIVEN a machine that is three times as slow in the last round: ratios 2, 4, 2
        one = gain(original=[4.0, 4.0, 12.0], twin=[2.0, 1.0, 6.0])
        assert one.speedup("twin") == pytest.approx(2.0)

    def test_a_program_for_which_nothing_was_kept_is_what_it_was(self) -> None:
        one = gain(original=[4.0], twin=[2.0])
        assert one.speedup("tuned") == 1.0
        assert one.share == 0.0
        assert not one.is_slower

    @pytest.mark.parametrize(("tuned_s", "slower"), [(1.0 / 0.96, True), (1.0 / 0.98, False)])
    def test_three_percent_are_not_called_slower(self, tuned_s: float, slower: bool) -> None:
        assert gain(original=[1.0], twin=[1.0], tuned=[tuned_s]).is_slower is slower

    def test_a_prediction_errs_by_a_share_of_what_was_measured(self) -> None:
        predicted = [{"predicted": 1.8, "measured": 1.5}, {"predicted": 0.9, "measured": 1.0}]
        one = Gain("x", Kind.TRAINING, TWICE, predictions=predicted)
        assert one.prediction_errors == pytest.approx([0.2, 0.1])

    def test_memory_is_saved_as_a_share_of_the_peak(self) -> None:
        peaks = {"original": 100, "twin": 40, "tuned": 55}
        one = Saving("x", peaks, {"original": 2.0, "twin": 3.0, "tuned": 2.5})
        assert one.saved("tuned") == pytest.approx(0.45)
        assert one.slowdown("tuned") == pytest.approx(1.25)

    def test_without_a_plan_no_memory_is_saved(self) -> None:
        one = Saving("x", {"original": 100, "twin": 40}, {"original": 2.0, "twin": 3.0})
        assert one.saved("tuned") == 0.0
        assert one.slowdown("tuned") == 1.0


class TestTargets:
    def test_the_median_script_of_each_kind_counts(self) -> None:
        # GIVEN gains of 20, 50 and 400 %
        walls = ([1.2], [1.5], [5.0])
        gains = [gain(str(w), Kind.LOADING, original=w, twin=w, tuned=[1.0]) for w in walls]

        # WHEN
        targets = targets_of(gains, (), {}, ())

        # THEN
        found = named(targets, "gain of loading")
        assert found.value == pytest.approx(0.5)
        assert not found.ok
        assert not [one for one in targets if "preprocessing" in one.name]

    def test_the_worst_script_has_a_limit_of_its_own(self) -> None:
        # GIVEN three that reach the twin, and one that saves 0.3 of 0.5
        slow = gain(original=[1.0], twin=[0.5], tuned=[0.7])
        targets = targets_of([gain(), gain(), gain(), slow], (), {}, ())
        assert named(targets, "median script").ok
        assert named(targets, "worst script").value == pytest.approx(0.6)
        assert not named(targets, "worst script").ok

    def test_a_script_without_a_share_is_not_left_out_in_silence(self) -> None:
        no_faster = gain(original=[1.0], twin=[1.1], tuned=[0.9])
        found = named(targets_of([gain(), no_faster], (), {}, ()), "no faster")
        assert found.value == 1
        assert not found.ok

    def test_a_healthy_script_that_was_changed_is_counted(self) -> None:
        healthy: dict[str, list[str]] = {str(number): [] for number in range(8)}
        assert named(targets_of((), (), healthy, ()), "kept on healthy").ok
        assert not named(targets_of((), (), healthy | {"7": ["gc"]}, ()), "kept on healthy").ok

    def test_fewer_than_eight_healthy_scripts_show_nothing(self) -> None:
        assert not named(targets_of((), (), {"a": []}, ()), "healthy scripts tuned").ok

    @pytest.mark.parametrize(("claimed", "ok"), [(2, True), (3, False)])
    def test_two_claims_of_forty_are_luck(self, claimed: int, ok: bool) -> None:
        claims = [number < claimed for number in range(40)]
        assert named(targets_of((), (), {}, claims), "nothing was changed").ok is ok

    def test_the_memory_that_tuning_saves_counts_not_the_twins(self) -> None:
        one = Saving("x", {"original": 100, "twin": 20, "tuned": 70}, {"original": 1.0})
        found = named(targets_of((), [one], {}, ()), "memory saved")
        assert found.value == pytest.approx(0.3)
        assert not found.ok


class TestLosses:
    def test_the_farthest_step_counts(self) -> None:
        assert loss_error([2.0, 1.0], [2.0, 0.9]) == pytest.approx(0.1)

    @pytest.mark.parametrize("theirs", [[2.0], []])
    def test_other_steps_are_other_training(self, theirs: list[float]) -> None:
        assert loss_error([2.0, 1.0], theirs) == math.inf

    def test_no_losses_are_no_proof(self) -> None:
        assert loss_error([], []) == math.inf


class TestRounds:
    @pytest.mark.parametrize(("original_s", "rounds"), [(20.0, 3), (3.0, 4), (1.0, 6)])
    def test_short_scripts_get_more(self, original_s: float, rounds: int) -> None:
        assert rounds_for(original_s, 3) == rounds

    def test_who_comes_first_changes(self) -> None:
        order: list[str] = []

        def arm(name: str, seconds: float) -> float:
            order.append(name)
            return seconds

        taken = in_turns(
            {"original": lambda: arm("original", 6.0), "twin": lambda: arm("twin", 3.0)}, rounds=2
        )
        assert taken == {"original": [6.0, 6.0], "twin": [3.0, 3.0]}
        assert order == ["original", "twin", "twin", "original"]


class TestRecords:
    def test_what_is_done_is_read_again(self, tmp_path: Path) -> None:
        path = tmp_path / "gains.jsonl"
        Records(path).add("script", "a", {"kept": ["gc"]})
        again = Records(path)
        assert again.is_done("script", "a")
        assert not again.is_done("healthy", "a")
        assert again.of("script") == [{"what": "script", "name": "a", "kept": ["gc"]}]

    def test_half_a_line_costs_only_itself(self, tmp_path: Path) -> None:
        # GIVEN a run that was killed while it wrote
        path = tmp_path / "gains.jsonl"
        path.write_text('{"what": "script", "name": "a"}\n{"what": "scr')

        # WHEN it is taken up
        Records(path).add("script", "b", {})

        # THEN
        assert [one["name"] for one in Records(path).of("script")] == ["a", "b"]

    def test_a_problem_is_tried_again(self, tmp_path: Path) -> None:
        path = tmp_path / "gains.jsonl"
        Records(path).add("script", "a", {"problem": "hangs"})
        again = Records(path)
        assert not again.is_done("script", "a")
        assert again.problems() == {"script a": "hangs"}
        again.add("script", "a", {"kept": []})
        assert Records(path).problems() == {}


class TestWork:
    def test_only_what_is_left_is_done(self) -> None:
        done: list[str] = []

        def job(name: str) -> Job:
            def do(_: Path) -> dict[str, Any]:
                done.append(name)
                return {}

            return Job("script", name, 60.0, do)

        records = Records()
        records.add("script", "a", {})
        said: list[str] = []
        work([job("a"), job("b"), job("c")], records, said.append, clock=lambda: 0.0)
        assert done == ["b", "c"]
        assert said[0] == "[1/2] script b, 2 min left"

    def test_one_that_fails_does_not_end_it(self) -> None:
        def fails(_: Path) -> dict[str, Any]:
            raise Failed("exit code 3: no")

        records = Records()
        jobs = [Job("script", "a", 1.0, fails), Job("script", "b", 1.0, lambda _: {})]
        work(jobs, records, lambda _: None)
        assert records.problems() == {"script a": "exit code 3: no"}
        assert records.is_done("script", "b")

    def test_the_time_left_is_that_of_the_same_kind(self) -> None:
        left = Left()
        job = Job("script", "a", 60.0, lambda _: {})
        other = Job("healthy", "b", 5.0, lambda _: {})
        left.took(job, 100.0)
        left.took(job, 200.0)
        assert left.seconds([job, other]) == pytest.approx(155.0)

    def test_a_job_has_a_folder_for_itself(self) -> None:
        seen: list[Path] = []

        def do(folder: Path) -> dict[str, Any]:
            assert folder.is_dir()
            seen.append(folder)
            return {}

        work([Job("script", "a", 1.0, do)], Records(), lambda _: None)
        assert not seen[0].exists()


class TestWhatTuneSays:
    CHANGE = Change("gc", "no collections", expected_speedup=(1.6, 2.5))

    def read(self, tuning: Tuning, tmp_path: Path) -> Tuned:
        document = json.loads(json.dumps(tuning.to_dict()))
        return Tuned.of(document, tmp_path / "stepscope.toml")

    def test_the_predictions_of_what_was_kept_are_read(self, tmp_path: Path) -> None:
        kept = Trial(self.CHANGE, Verdict.FASTER, "", Speedup(1.9, 1.8, 2.0), kept=True)
        not_kept = Trial(self.CHANGE, Verdict.NO_GAIN, "no gain", Speedup(1.0, 0.9, 1.1))
        found = self.read(Tuning(trials=(kept, not_kept), kept=(self.CHANGE,)), tmp_path)
        assert found.config == tmp_path / "stepscope.toml"
        assert found.kept == ("gc",)
        assert found.predictions == [
            {"change": "gc", "predicted": pytest.approx(2.0), "measured": 1.9}
        ]

    def test_what_is_recorded_can_be_written(self, tmp_path: Path) -> None:
        found = self.read(Tuning(notes=("The time was used up.",)), tmp_path)
        assert json.loads(json.dumps(found.record())) == {
            "kept": [], "trials": [], "notes": ["The time was used up."],
        }  # fmt: skip

    def test_nothing_kept_is_nothing_to_apply(self, tmp_path: Path) -> None:
        assert self.read(Tuning(), tmp_path) == Tuned(None, (), ())


class TestTheWhole:
    def records(self) -> Records:
        records = Records()
        predictions = [{"change": "gc", "predicted": 2.2, "measured": 2.0}]
        script = {"walls_s": TWICE, "kept": ["gc"], "predictions": predictions}
        records.add("script", "gc_collect", {"kind": "training", **script})
        peaks = {"original": 100, "twin": 40, "tuned": 50}
        walls = {"original": 1.0, "twin": 1.3, "tuned": 1.2}
        saving = {"peak_bytes": peaks, "walls_s": walls, "kept": ["plan"]}
        records.add("memory", "memory_blocks", saving)
        records.add("healthy", "healthy_mlp", {"kept": []})
        records.add("null", "healthy_mlp 0", {"claims": [False]})
        records.add("script", "net_http", {"problem": "hangs: killed after 9 s"})
        return records

    def test_the_result_is_the_last_line_and_can_be_read(self) -> None:
        result = json.loads(result_of(self.records()).line())
        assert result["figures"]["scripts"]["gc_collect"]["share"] == 1.0
        assert result["figures"]["memory"]["memory_blocks"]["tuned"] == 0.5
        missed = [target["name"] for target in result["targets"] if not target["ok"]]
        assert missed == ["healthy scripts tuned", "could not be measured"]

    def test_the_table_shows_what_could_not_be_measured(self) -> None:
        text = table_of(self.records())
        assert "script net_http: could not be measured: hangs: killed after 9 s" in text
        assert "a gain claimed in 0 of 1" in text

    def test_what_was_not_asked_for_is_no_target(self) -> None:
        assert [target.name for target in result_of(Records()).targets] == ["could not be measured"]

    def test_a_pattern_picks_scripts_and_healthy_ones_alike(self) -> None:
        assert [job.name for job in jobs_of(options_of(["--only", "net_*"]))] == [
            "net_store", "net_http",
        ]  # fmt: skip
        healthy = jobs_of(options_of(["--only", "healthy_*"]))
        assert {job.what for job in healthy} == {"healthy"}
        assert jobs_of(options_of(["--only", "healthy_*", "--skip-healthy"])) == []

    def test_comparisons_of_scripts_with_themselves_are_each_their_own(self) -> None:
        jobs = jobs_of(options_of(["--only", "none", "--null", "25"]))
        assert len({job.name for job in jobs}) == 25

    def test_a_file_that_is_there_is_not_written_over(self, tmp_path: Path) -> None:
        path = tmp_path / "gains.jsonl"
        path.touch()
        with pytest.raises(SystemExit):
            options_of(["--out", str(path)])


class TestScripts:
    def test_there_are_enough_of_them(self) -> None:
        assert len([pair for pair in PAIRS if pair.kind is not Kind.MEMORY]) >= 12
        assert {pair.kind for pair in PAIRS} == set(Kind)
        assert len(HEALTHY) >= 8

    @pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
    def test_a_twin_says_whose_it_is_and_is_another_program(self, pair: Any) -> None:
        original, twin = (ast.parse(one.path.read_text()) for one in (pair.original, pair.twin))
        assert (ast.get_docstring(twin) or "").startswith(f"{pair.name}: ")
        assert ast.dump(ast.Module(original.body[1:], [])) != ast.dump(
            ast.Module(twin.body[1:], [])
        )

    def test_the_loops_own_clock_is_read(self, tmp_path: Path) -> None:
        path = tmp_path / "clock.py"
        path.write_text(
            "import os, pathlib\n"
            "level = os.environ['FAULT_STRENGTH']\n"
            "pathlib.Path(os.environ['FAULT_TRUTH']).write_text('{\"wall_s\": %s}' % level)\n"
        )
        assert wall_s(Script(path, strength=0.5)) == 0.5

    def test_a_script_that_fails_says_why(self, tmp_path: Path) -> None:
        path = tmp_path / "broken.py"
        path.write_text("raise SystemExit('out of luck')\n")
        with pytest.raises(Failed, match="out of luck"):
            wall_s(Script(path))
