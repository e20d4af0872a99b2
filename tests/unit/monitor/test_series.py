"""What every metric did over the run."""

from __future__ import annotations

import math

import pytest

from stepscope.monitor.series import LONGEST_NAME, MOST_KNOWN, MOST_OWN, SeriesKey, SeriesTable


def test_each_series_has_its_own_figures() -> None:
    table = SeriesTable()
    for second in range(100):
        table.update(SeriesKey("gpu_busy_ratio", "0", 0), second, 0.5)
        table.update(SeriesKey("gpu_busy_ratio", "1", 0), second, second / 100)
    first, second_gpu = table.summaries().values()
    assert (first.low, first.p50, first.peak, first.last) == (0.5, 0.5, 0.5, 0.5)
    assert second_gpu.average == pytest.approx(0.495)
    assert second_gpu.trend is not None
    assert second_gpu.trend.direction == "rising"


def test_metrics_of_the_programs_own_do_not_push_out_ours() -> None:
    table = SeriesTable()
    kept = sum(table.update(SeriesKey(f"mine {n}", "", 0), 0.0, 1.0) for n in range(5000))
    assert kept == MOST_OWN
    assert table.left_out == 5000 - MOST_OWN
    assert table.update(SeriesKey("loss", "", 0), 0.0, 1.0)
    kept = sum(table.update(SeriesKey("loss", "", rank), 0.0, 1.0) for rank in range(1, 5000))
    assert kept == MOST_KNOWN - 1


def test_names_without_end_are_left_out() -> None:
    table = SeriesTable()
    assert not table.update(SeriesKey("x" * (LONGEST_NAME + 1), "", 0), 0.0, 1.0)
    assert not table.update(SeriesKey("x", "y" * (LONGEST_NAME + 1), 0), 0.0, 1.0)
    assert table.left_out == 2


def test_a_series_without_a_number_has_no_summary() -> None:
    table = SeriesTable()
    table.update(SeriesKey("x", "", 0), 0.0, math.nan)
    assert table.summaries() == {}


def test_memory_and_throughput_have_a_forecast_no_further_than_they_were_watched() -> None:
    table = SeriesTable()
    key = SeriesKey("memory_bytes", "", 0)
    for second in range(200):
        table.update(key, second, 1000.0 + second)
    summary = table.summaries()[key]
    assert summary.forecast is not None
    assert 0.0 < summary.ahead_s <= 199.0
    assert summary.forecast.value == pytest.approx(summary.last + summary.ahead_s, rel=0.02)
