from __future__ import annotations

import io

from rich.console import Console

from stepscope.analyze.history import series_of
from stepscope.model.comparison import metric
from stepscope.model.history import HistoryRun, Series
from stepscope.report.glyphs import ASCII, UNICODE
from stepscope.report.history import render_history, sparkline


def series(key: str, *values: float) -> Series:
    runs = [HistoryRun(f"run-{place}", 0.0, value) for place, value in enumerate(values)]
    return series_of("train.py", metric(key), runs)


def text_of(*shown: Series) -> str:
    file = io.StringIO()
    render_history(list(shown), Console(file=file, width=120))
    return file.getvalue()


def test_a_line_of_bars_shows_the_highest_as_the_tallest() -> None:
    assert sparkline([1.0, 2.0, 3.0], UNICODE) == "▁▅█"
    assert sparkline([1.0, 2.0, 3.0], ASCII) == "_=#"


def test_a_flat_line_looks_flat() -> None:
    assert sparkline([100.0, 100.5, 99.9], UNICODE) == "▁▁▁"


def test_only_the_last_values_are_drawn() -> None:
    assert len(sparkline([1.0] * 500, UNICODE)) == 60


def test_a_change_is_told_in_words_and_marked_in_the_table() -> None:
    said = text_of(series("step", *[10.0] * 5, *[12.0] * 5))

    assert "slower since run-5, " in said
    assert "(+20.0 %): 10.00 ms → 12.00 ms" in said
    (marked,) = [line for line in said.splitlines() if "from here on" in line]
    assert marked.split()[0] == "run-5"


def test_less_throughput_is_slower_and_more_memory_is_more() -> None:
    assert "slower since run-5" in text_of(series("throughput", *[10.0] * 5, *[8.0] * 5))
    assert "more since run-5" in text_of(series("memory", *[1e9] * 5, *[2e9] * 5))


def test_no_change_is_said_too() -> None:
    assert "No change that chance could not have made." in text_of(series("step", *[1.0] * 6))
    assert "Too few runs to tell a change from chance." in text_of(series("step", *[1.0] * 5))


def test_long_series_show_their_newest_runs() -> None:
    said = text_of(series("step", *[1.0] * 30))

    assert "… 10 older" in said
    assert "run-29" in said
    assert "run-9 " not in said
