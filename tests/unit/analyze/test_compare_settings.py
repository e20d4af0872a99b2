from __future__ import annotations

from stepscope.analyze.compare_settings import warnings_about
from tests.unit.analyze.made_runs import run


def test_runs_under_the_same_conditions_give_no_warning() -> None:
    about = {"host": "a", "number of CPUs": "4"}

    assert warnings_about([run(about=about)], [run(about=about)]) == []


def test_what_differs_between_the_groups_is_told() -> None:
    before = [run(about={"host": "a", "version of torch": "2.12"})]
    after = [run(about={"host": "b", "version of torch": "2.12"})]

    assert warnings_about(before, after) == [
        "The host differs: a in base, b in new. What is measured may come from that."
    ]


def test_what_differs_within_both_groups_alike_is_told_too() -> None:
    mixed = [run(about={"host": "a"}), run(about={"host": "b"})]

    assert warnings_about(mixed, mixed) == ["The host differs within each group: a, b."]


def test_what_one_group_does_not_say_is_no_difference() -> None:
    assert warnings_about([run(about={})], [run(about={"version of torch": "2.12"})]) == []


def test_runs_of_other_lengths_are_told() -> None:
    (warning,) = warnings_about([run(steps=100)], [run(steps=500)])

    assert warning.startswith("Runs differ in length: 100 steps in base, 500 in new.")


def test_remarks_about_runs_name_them() -> None:
    crashed = [run(f"run-{number}", remarks=("it ended with exit code 1",)) for number in range(5)]

    assert warnings_about(crashed[:3], crashed[3:]) == [
        "run-0, run-1, run-2 and 2 more: it ended with exit code 1."
    ]
