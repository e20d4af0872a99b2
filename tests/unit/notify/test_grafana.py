"""The dashboard against what a scrape really holds."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import parser

from stepscope.cli import main
from stepscope.model.metric_table import METRICS
from stepscope.model.watching import Reading
from stepscope.notify.exposition import Exposition
from stepscope.notify.grafana import dashboard
from tests.unit.notify.exports import context, every_metric


@pytest.fixture(scope="module")
def scraped() -> dict[str, set[str]]:
    """Name → its labels, of a run that has everything."""
    exposition = Exposition(context(Path()))
    exposition.update([*every_metric(), Reading(1, "accuracy", 0.5)])
    found: dict[str, set[str]] = {}
    for family in parser.text_string_to_metric_families(exposition.page().content.decode()):
        for sample in family.samples:
            found[sample.name] = set(sample.labels)
    return found


def panels() -> list[dict[str, Any]]:
    return [one for one in dashboard()["panels"] if one["type"] != "row"]


def query_of(panel: dict[str, Any]) -> str:
    (target,) = panel["targets"]
    return str(target["expr"])


def test_every_query_asks_for_a_metric_and_labels_that_a_scrape_has(
    scraped: dict[str, set[str]],
) -> None:
    for panel in panels():
        names = re.findall(r"stepscope_[\w.+]+", query_of(panel))
        matching = [name for name in scraped if re.fullmatch(names[0], name)]
        assert len(names) == 1, query_of(panel)
        assert matching, names
        shown = re.findall(r"\{\{(\w+)\}\}", panel["targets"][0]["legendFormat"])
        asked = re.findall(r'(\w+)=~"\$', query_of(panel))
        assert {*shown, *asked} - {"__name__"} <= scraped[matching[0]]


def test_every_metric_has_one_panel_and_there_is_one_for_those_of_the_program() -> None:
    queries = [query_of(panel) for panel in panels()]
    for metric in METRICS.values():
        assert sum(f"{metric.prometheus}{{" in query for query in queries) == 1
    assert len(queries) == len(METRICS) + 1


def test_counters_are_shown_as_rates_and_units_are_those_of_grafana() -> None:
    by_name = {re.findall(r"stepscope_\w+", query_of(one))[0]: one for one in panels()}
    read = by_name["stepscope_disk_read_bytes_total"]
    assert query_of(read).startswith("rate(")
    assert read["fieldConfig"]["defaults"]["unit"] == "Bps"
    assert by_name["stepscope_step_seconds"]["fieldConfig"]["defaults"]["unit"] == "s"
    assert by_name["stepscope_memory_bytes"]["fieldConfig"]["defaults"]["unit"] == "bytes"
    assert by_name["stepscope_phase_ratio"]["fieldConfig"]["defaults"]["unit"] == "percentunit"
    assert by_name["stepscope_cpu_ratio"]["fieldConfig"]["defaults"]["unit"] == "suffix: CPUs"


def test_variables_choose_source_run_and_rank_of_metrics_that_are_there(
    scraped: dict[str, set[str]],
) -> None:
    source, run, rank = dashboard()["templating"]["list"]
    assert (source["name"], source["type"], source["query"]) == (
        "datasource",
        "datasource",
        "prometheus",
    )
    for variable in (run, rank):
        metric, label = re.fullmatch(
            r"label_values\((\w+)(?:\{.*\})?, (\w+)\)", variable["query"]["query"]
        ).groups()  # type: ignore[union-attr]
        assert label == variable["name"]
        assert label in scraped[metric]


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    everything = dashboard()["panels"]
    assert len({one["id"] for one in everything}) == len(everything)
    taken: set[tuple[int, int]] = set()
    for one in everything:
        at = one["gridPos"]
        assert at["x"] + at["w"] <= 24
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken
        taken |= cells


def test_the_command_writes_the_same_to_a_file_and_to_standard_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["grafana", "-o", str(tmp_path / "stepscope.json")]) == 0
    assert main(["grafana"]) == 0
    printed = capsys.readouterr().out
    assert json.loads(printed) == dashboard()
    assert (tmp_path / "stepscope.json").read_text() == printed


def test_a_file_that_cannot_be_written_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["grafana", "-o", str(tmp_path / "gone" / "x.json")]) == 2
    assert "name another file with -o" in capsys.readouterr().err
