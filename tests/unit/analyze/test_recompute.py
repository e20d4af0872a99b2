from __future__ import annotations

import doctest

import pytest

from stepscope.advise.catalogue import advise
from stepscope.analyze import recompute
from stepscope.analyze.resources import GpuUse, Resources
from stepscope.model.details import Details
from stepscope.model.finding import Finding
from tests.unit.analyze.made_evidence import found, op, trained
from tests.unit.report.made_checkpointing import made_checkpointing

OPS = (op("aten::addmm", 50.0), op("aten::mm", 40.0))
AMPLE = Resources(memory_available_bytes=19e9, memory_total_bytes=32e9)


def judged(resources: Resources = AMPLE, **made: object) -> Finding:
    details = Details(ops=OPS, checkpointing=made_checkpointing(**made))  # type: ignore[arg-type]
    return found(trained(), details, resources)["recompute"]


def test_it_says_which_layers_how_long_and_how_much_it_saves() -> None:
    finding = judged()
    assert finding.share == pytest.approx(30 / 101, abs=0.001)
    assert finding.evidence[0] == (
        "Checkpointing recomputes 6 layers (blocks.0 … blocks.5): 30 ms of every step (30 %),"
        " 1.50 s of the run, to save 96.0 MB."
    )
    assert finding.evidence[1] == "19.0 GB of memory were free: all of it would have fit."
    assert (finding.location.file, finding.location.line) == ("/home/ada/train.py", 20)
    assert finding.location.layer == "blocks.0"
    assert finding.missing == ()


@pytest.mark.parametrize(
    ("resources", "fits"),
    [
        (Resources(memory_available_bytes=192e6), True),  # half of it is for safety
        (Resources(memory_available_bytes=191e6), False),
        (Resources(memory_available_bytes=0.0), False),
        (
            Resources(
                memory_available_bytes=19e9,
                gpus=(GpuUse(0, memory_used_bytes=7.95e9, memory_total_bytes=8e9),),
            ),
            False,
        ),
    ],
)
def test_memory_is_ample_when_all_of_it_would_fit_into_half_of_what_was_free(
    resources: Resources, fits: bool
) -> None:
    finding = judged(resources)
    assert finding.evidence[1].startswith("It is needed") != fits
    assert finding.measures["removable_ms"] == (30.0 if fits else 0.0)


def test_where_it_is_needed_only_layers_that_save_little_are_named() -> None:
    finding = judged(Resources(memory_available_bytes=1e6), poor=True)
    assert finding.evidence[1] == (
        "It is needed: only 1.0 MB of memory were free. But head saves far less than the others"
        " for the same time."
    )
    assert finding.measures["removable_ms"] == 5.0


def test_what_is_not_known_is_said() -> None:
    nothing = judged(Resources())
    assert nothing.evidence[1] == "Whether memory asks for it is not known."
    assert nothing.missing == ("How much memory was free was not measured.",)
    unknown = judged(saved=None)
    assert "an amount that was not measured" in unknown.evidence[0]
    assert "What recomputing saves was not measured" in unknown.missing[0]


@pytest.mark.parametrize(
    ("resources", "poor", "title", "speedup"),
    [
        (AMPLE, False, "Keep activations", (101 / 74, 101 / 68)),
        (Resources(memory_available_bytes=1e6), True, "Keep activations", (101 / 96.5, 101 / 95.5)),
        (Resources(memory_available_bytes=1e6), False, "Plan which blocks", None),
        (Resources(), False, "Checkpoint only what", None),
    ],
)
def test_the_advice_gains_what_need_not_be_recomputed(
    resources: Resources, poor: bool, title: str, speedup: tuple[float, float] | None
) -> None:
    (advised,) = advise([judged(resources, poor=poor)])
    recommended = advised.recommendation
    assert recommended is not None
    assert recommended.title.startswith(title)
    given = recommended.expected_speedup
    assert given is None if speedup is None else given == pytest.approx(speedup, rel=0.01)
    assert "stepscope plan" in recommended.action


def test_names_are_in_the_order_of_their_numbers() -> None:
    done = doctest.testmod(recompute)
    assert (done.failed, done.attempted > 0) == (0, True)
