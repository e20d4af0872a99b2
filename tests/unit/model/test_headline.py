from __future__ import annotations

import pytest

from stepscope.model.finding import Finding, Recommendation
from stepscope.model.headline import headline
from stepscope.model.kinds import KINDS


def finding(kind: str, share: float, advice: str = "") -> Finding:
    made = Recommendation(advice, "") if advice else None
    title = KINDS[kind].title(share) if KINDS[kind].words else f"{kind} of {share:.0%}"
    return Finding(kind, title, share, 0.5, 0.9, recommendation=made)


def said(*findings: Finding) -> tuple[str, str]:
    found = headline(findings)
    assert found is not None
    return found.kind, found.title


def test_a_loop_that_only_computes_is_compute_bound() -> None:
    assert said(finding("compute", 0.93)) == (
        "compute",
        "Compute-bound: model compute takes 93 % of the loop",
    )


def test_a_small_avoidable_cost_is_named_after_what_the_loop_mostly_does() -> None:
    assert said(finding("validation", 0.077), finding("compute", 0.91)) == (
        "compute",
        "91 % of the loop is model compute. Largest avoidable cost: evaluation (7.7 %)",
    )


def test_the_headline_of_a_computing_loop_recommends_what_to_do_first() -> None:
    first, compute = finding("gc", 0.1, "Collect less often"), finding("compute", 0.8, "Compile")
    found = headline([first, compute])
    assert found is not None
    assert found.kind == "compute"
    assert found.recommendation == first.recommendation


@pytest.mark.parametrize(
    ("kind", "title"),
    [
        ("input-cpu", "Input-bound: computing samples takes 62 % of the loop"),
        ("precision", "Compute-bound: a higher precision than needed takes 62 % of the loop"),
        ("logging-io", "Host-bound: writing logs takes 62 % of the loop"),
        ("device-sync", "Host-bound: waiting for the GPU in every step takes 62 % of the loop"),
        (
            "host-overhead",
            "Host-bound: Python and dispatch overhead between operators takes 62 % of the loop",
        ),
        (
            "communication",
            "Communication-bound: communication between ranks takes 62 % of the loop",
        ),
    ],
)
def test_a_loop_is_bound_by_what_takes_more_than_half_of_it(kind: str, title: str) -> None:
    assert said(finding(kind, 0.62), finding("compute", 0.3)) == (kind, title)


def test_what_takes_most_but_not_half_of_the_loop_does_not_bind_it() -> None:
    found = said(finding("python-in-loop", 0.45), finding("compute", 0.4))
    assert found == ("python-in-loop", "Your own Python code in the loop takes 45 % of the loop")


def test_causes_of_waiting_for_input_count_together() -> None:
    waiting = finding("input-cpu", 0.3), finding("input-collate", 0.25)
    assert said(*waiting, finding("compute", 0.4)) == (
        "input-cpu",
        (
            "Input-bound: waiting for input takes 55 % of the loop,"
            " most of it computing samples (30 %)"
        ),
    )


def test_memory_that_ends_the_run_begins_the_headline() -> None:
    leak = finding("leak", 0.4, "Release it")
    found = headline([leak, finding("compute", 0.9)])
    assert found is not None
    assert found.kind == "compute"
    assert found.title == "Leak of 40%. Compute-bound: model compute takes 90 % of the loop"
    assert found.recommendation == leak.recommendation


def test_without_a_loop_the_first_finding_is_the_headline() -> None:
    block = Finding("cpu-bound", "CPU-bound: it computed 90 % of the time", 0.9, 0.9, 0.9)
    assert headline([block]) is block
    assert headline([]) is None
