from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

from stepscope.model.details import Details
from stepscope.model.finding import Finding
from stepscope.model.summary import Summary
from stepscope.session.show import show_summary
from stepscope.store.details import write_details
from tests.unit.report.made_checkpointing import made_checkpointing
from tests.unit.report.made_summary import input_bound


def recomputing() -> Summary:
    return replace(
        input_bound(), findings=(Finding("recompute", "computing again", 0.3, 0.7, 0.9),)
    )


def shown(summary: Summary, run: Path | None) -> str:
    file = io.StringIO()
    show_summary(summary, file, run)
    return file.getvalue()


def test_the_layers_that_are_recomputed_are_listed_where_that_is_a_finding(tmp_path: Path) -> None:
    write_details(tmp_path, Details(checkpointing=made_checkpointing()))
    assert "blocks.5" in shown(recomputing(), tmp_path)
    assert "blocks.5" not in shown(input_bound(), tmp_path)
    assert "blocks.5" not in shown(recomputing(), None)


def test_details_that_cannot_be_read_do_not_keep_the_summary_from_being_shown(
    tmp_path: Path,
) -> None:
    assert "recompute" in shown(recomputing(), tmp_path)
    (tmp_path / "details.json").write_text("{")
    assert "recompute" in shown(recomputing(), tmp_path)
