from __future__ import annotations

import io
from xml.etree import ElementTree as Xml

import pytest
from rich.console import Console

from stepscope.analyze.compare import compare
from stepscope.model.comparison import Comparison
from stepscope.report.compare import as_markdown, render_comparison
from stepscope.report.junit import as_junit
from tests.unit.analyze.made_runs import group, run


@pytest.fixture
def slower() -> Comparison:
    return compare(group([10.0, 10.1, 9.9]), group([11.0, 11.1, 10.9], "new"))


def text_of(comparison: Comparison, width: int = 120, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding)
    render_comparison(comparison, Console(file=file, width=width))
    file.flush()
    return raw.getvalue().decode(encoding)


def test_the_text_tells_the_outcome_the_figures_and_the_phases(slower: Comparison) -> None:
    lines = text_of(slower).splitlines()

    assert (
        lines[0] == "stepscope · compare · base: base-0, base-1, base-2 · new: new-0, new-1, new-2"
    )
    assert lines[2] == "Regression: the new runs are worse, and that is no chance."
    (step,) = [line for line in lines if line.startswith("undisturbed step")]
    assert step.split()[2:8] == ["9.00", "ms", "9.90", "ms", "+10.0", "%"]
    assert step.rstrip().endswith("worse")
    assert any(line.startswith("backward") for line in lines)


def test_it_can_be_written_where_there_is_only_ascii(slower: Comparison) -> None:
    assert "9 ms -> 9.9 ms" in text_of(slower, encoding="ascii")


def test_many_runs_are_not_all_named() -> None:
    found = compare(group([10.0] * 5), group([10.0] * 5, "new"))

    assert "base: 5 runs (base-0 … base-4)" in text_of(found)


def test_markdown_has_tables_whose_rows_all_have_the_same_cells(slower: Comparison) -> None:
    lines = as_markdown(slower).splitlines()
    rows = [line for line in lines if line.startswith("|")]

    assert lines[0] == "## Regression: the new runs are worse, and that is no chance."
    assert {row.count("|") for row in rows} == {7, 8}
    assert "| undisturbed step | 9.00 ms | 9.90 ms | +10.0 % |" in rows[2]


def test_names_of_runs_are_no_markup() -> None:
    odd = run("a|b <img> *x*\nnext")

    first = as_markdown(compare([odd], [run("b")])).splitlines()[2]

    assert first == "base: a\\|b \\<img\\> \\*x\\* next · new: b"


def test_junit_fails_what_is_worse_and_passes_the_rest(slower: Comparison) -> None:
    root = Xml.fromstring(as_junit(slower))
    (suite,) = root

    assert root.attrib == {"tests": "3", "failures": "2", "errors": "0", "skipped": "0"}
    cases = {case.attrib["name"]: case for case in suite.iter("testcase")}
    failure = cases["undisturbed step"].find("failure")
    assert failure is not None
    assert failure.attrib["message"].startswith("9.00 ms to 9.90 ms, +10.0 %")
    assert cases["peak memory"].find("failure") is None


def test_junit_skips_what_cannot_be_told_even_with_odd_names() -> None:
    root = Xml.fromstring(as_junit(compare([run("\x00<&")], [run("b")])))

    assert root.attrib["skipped"] == "3"
    assert root.attrib["failures"] == "0"
