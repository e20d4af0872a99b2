from __future__ import annotations

import io

from rich.console import Console

from stepscope.model.change import Change
from stepscope.model.trial import Speedup, Trial, Tuning, Verdict
from stepscope.report.tuning import render_proposals, render_tuning

LOADER = Change("loader", "Let 2 workers prepare batches", {"num_workers": 2}, (1.6, 2.5))
COMPILE = Change("compile", "Compile the model")


def shown(tuning: Tuning) -> str:
    file = io.StringIO()
    render_tuning(tuning, "train", Console(file=file, width=140))
    return file.getvalue()


def test_the_gain_comes_first_and_then_every_change_with_its_reason() -> None:
    kept = Trial(LOADER, Verdict.FASTER, "", Speedup(2.04, 1.9, 2.2), kept=True, runs=(3, 3))
    failed = Trial(COMPILE, Verdict.FAILED, "crashed: no compiler")
    text = shown(
        Tuning(0.040, (kept, failed), (LOADER,), Speedup(2.04, 1.9, 2.2), notes=("It was noisy.",))
    )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    assert lines[1] == (
        "2.04× as fast (a step of 40.00 ms takes 19.61 ms): Let 2 workers prepare batches."
    )
    row = next(line for line in lines if line.startswith("loader"))
    assert row.split() == [
        "loader", "Let", "2", "workers", "prepare", "batches", "2.00×", "2.04×",
        "1.90", "to", "2.20", "kept",
    ]  # fmt: skip
    assert "unknown" in text
    assert "not kept: crashed: no compiler" in text
    assert "note: It was noisy." in text


def test_where_nothing_helps_it_says_so() -> None:
    tried = Trial(COMPILE, Verdict.NO_GAIN, "no gain worth it", Speedup(1.0, 0.98, 1.02))
    assert "Nothing is kept" in shown(Tuning(0.04, (tried,)))
    assert "Nothing to change" in shown(Tuning())


def test_memory_is_told_as_memory() -> None:
    plan = Change("plan", "Recompute 3 parts of the model in backward")
    kept = Trial(plan, Verdict.FASTER, "", Speedup(0.9, 0.88, 0.92), kept=True)
    text = shown(Tuning(0.04, (kept,), (plan,), kept.measured, saved_memory=0.45))
    assert "The peak of memory is 45 % lower" in text


def test_what_would_be_tried_is_listed_with_why_not() -> None:
    file = io.StringIO()
    render_proposals([(LOADER, ""), (COMPILE, "not now")], Console(file=file, width=140))
    assert "num_workers=2" in file.getvalue()
    assert "not now" in file.getvalue()
