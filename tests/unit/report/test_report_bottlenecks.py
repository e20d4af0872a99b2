from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from stepscope import (
    BottleneckProfile,
    BottleneckType,
    DataLoadingBottleneck,
    DataLoadingProfile,
    Finding,
    PerformanceMetrics,
    PreprocessingProfile,
    ProfilingSession,
    StepscopeError,
)
from stepscope.report.bottlenecks import session_markdown
from stepscope.session.written import write_loading, write_session

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SESSION = ProfilingSession(
    session_id="train_1",
    start_time=START,
    end_time=START + timedelta(seconds=2.5),
    performance_metrics={"total_time": 2.5, "gpu_usage": None},
    bottlenecks=(
        BottleneckProfile(
            bottleneck_type=BottleneckType.PREPROCESSING,
            operation_name="resize $5 $6 画像",
            severity=0.71,
            frequency=12,
            execution_time=1.25,
            optimization_potential=0.5,
            suggestions=("Do it once",),
            evidence=("It took half.",),
        ),
        BottleneckProfile(
            bottleneck_type=BottleneckType.MEMORY_ALLOCATION,
            operation_name="high_memory_usage",
            severity=0.2,
        ),
    ),
    memory_profile={0.0: 40.0, 1.0: 50.0},
    operations={"a|b": PerformanceMetrics(calls=2, execution_time=1.5)},
    verdict="Input-bound.",
    notes=("a note",),
)

PAGE = """# Bottleneck Profiling Report
Generated: 2026-01-02 03:04:05  \nSession ID: train_1

## Session Summary
- Start Time: 2026-01-02 03:04:05 +0000
- End Time: 2026-01-02 03:04:07 +0000
- Duration: 2.50 seconds
- Verdict: Input-bound.

## Performance Metrics
- total_time: 2.5000
- gpu_usage: not measured

## Bottleneck Analysis
Total Bottlenecks Detected: 2

### Bottlenecks by Type

#### Preprocessing
- **resize $5 $6 画像**: Severity: 0.71, Frequency: 12, Time: 1.2500s, Potential: 0.50
  - It took half.
  - Suggestions:
    - Do it once

#### Memory Allocation
- **high_memory_usage**: Severity: 0.20, Frequency: 1, Time: not measured

## Operations

| operation | runs | seconds | CPU seconds | peak MB |
| --- | ---: | ---: | ---: | ---: |
| a\\|b | 2 | 1.500 | – | – |

## Notes
- a note
"""


def test_the_page_is_in_the_documents_form() -> None:
    assert session_markdown(SESSION, START) == PAGE


def test_a_session_without_anything_in_the_way_says_so() -> None:
    quiet = ProfilingSession(session_id="quiet", start_time=START)
    page = session_markdown(quiet, START)
    assert "Total Bottlenecks Detected: 0" in page
    assert "None was found." in page
    assert "- Duration: it goes on" in page


@pytest.mark.parametrize(
    "session", [SESSION, ProfilingSession(session_id="quiet", start_time=START)]
)
def test_three_files_are_written(
    session: ProfilingSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot", raising=False)
    paths = write_session(session, tmp_path / "new")
    assert paths.markdown.read_text("utf-8").startswith("# Bottleneck Profiling Report")
    assert json.loads(paths.json.read_text("utf-8")) == session.to_dict()
    assert paths.png is not None
    assert paths.png.read_bytes().startswith(b"\x89PNG")
    assert "matplotlib.pyplot" not in sys.modules, "the user's figures are the user's"


def test_without_matplotlib_there_is_no_picture_and_it_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    paths = write_session(SESSION, tmp_path)
    assert paths.png is None
    assert "stepscope[plots]" in paths.note
    assert paths.markdown.is_file()


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    with pytest.raises(StepscopeError, match="cannot be written"):
        write_session(SESSION, tmp_path / "file" / "below")


def test_loaders_and_functions_on_one_page(tmp_path: Path) -> None:
    finding = Finding("input-cpu", "computes", 0.9, 0.9, 0.8, ("evidence",), ("missing",))
    loaders = [
        DataLoadingProfile(batch_size=8, throughput_samples_per_second=10.0),
        DataLoadingProfile(
            batch_size=16,
            num_workers=2,
            throughput_samples_per_second=40.0,
            avg_batch_time=0.4,
            bottlenecks=(DataLoadingBottleneck.CPU_BOUND_PREPROCESSING,),
            findings=(finding,),
            suggestions=("Do less",),
        ),
    ]
    functions = [PreprocessingProfile(operation_name="resize", num_iterations=3, notes=("n",))]
    paths = write_loading(loaders, functions, tmp_path, "x")
    page = paths.markdown.read_text("utf-8")
    assert "| 16 | 2 | – | 40.00 | 400.00 | – | – | cpu_bound_preprocessing **best** |" in page
    assert "- **Computes**: Severity: 0.90, Confidence: 0.80\n  - evidence\n  - missing" in page
    assert "### resize\n- Time: not measured a call (3 calls)\n- Note: n" in page
    saved = json.loads(paths.json.read_text("utf-8"))
    assert saved["best"]["batch_size"] == 16
    assert saved["data_loading"][1]["bottlenecks"] == ["cpu_bound_preprocessing"]
