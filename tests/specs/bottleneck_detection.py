"""The blocks of specification 004, bottleneck detection."""

from __future__ import annotations

import dataclasses
import enum
import json
import os
import re
import tempfile
import time
from pathlib import Path
from typing import Any

import stepscope
from stepscope import BottleneckProfiler, BottleneckType
from tests.specs.case import Case, Names

__all__ = ["CASES", "INSIDES"]

# They show how the document's own classes are coded: bodies of methods and classes, no use of them.
INSIDES = frozenset({
    "Implementation Details",
    "Real-time Monitoring Loop",
    "Bottleneck Detection",
    "Context Manager Integration",
    "Configuration Optimization",
    "Bottleneck Detection Logic",
    "Optimization Scoring",
    "Profiling Implementation",
    "Batch Size Optimization",
    "Memory Tracker",
    "GPU Tracker",
    "CPU Tracker",
    "Report Structure",
    "Visualization Generation",
    "Exception Handling",
    "Graceful Degradation",
})  # fmt: skip


# ---- definitions: the document's own, and ours beside them ----


def what_they_are_made_of() -> dict[str, Any]:
    return {"Enum": enum.Enum, "dataclass": dataclasses.dataclass}


def ours_has_every_type(names: Names, printed: str) -> None:
    for theirs in names["BottleneckType"]:
        ours = getattr(BottleneckType, theirs.name)
        assert (ours.name, ours.value) == (theirs.name, theirs.value)
        assert BottleneckType(theirs.value) is ours


def ours_has_every_level(names: Names, printed: str) -> None:
    theirs = {level.name: level.value for level in names["ProfilingLevel"]}
    assert theirs == {level.name: level.value for level in stepscope.ProfilingLevel}


def ours_has_the_same_defaults(names: Names, printed: str) -> None:
    theirs, ours = names["BottleneckProfilerConfig"](), stepscope.BottleneckProfilerConfig()
    for field in dataclasses.fields(theirs):
        assert getattr(ours, field.name) == getattr(theirs, field.name)


# ---- usage ----


def a_profiler_and_a_function() -> dict[str, Any]:
    def my_preprocessing_function(data: list[int]) -> list[int]:
        time.sleep(0.05)
        return [2 * value for value in data]

    return {
        "profiler": BottleneckProfiler(),
        "my_preprocessing_function": my_preprocessing_function,
        "data": [1, 2],
    }


def only_the_second_call_was_measured(names: Names, printed: str) -> None:
    assert names["result"] == [2, 4]
    session = names["profiler"].stop_profiling_session()
    assert session.operations["my_preprocessing"].calls == 1
    found = next(one for one in session.bottlenecks if one.operation_name == "my_preprocessing")
    assert found.bottleneck_type is BottleneckType.PREPROCESSING
    assert found.frequency == 1
    assert 0.05 <= found.execution_time < 1


def a_training() -> dict[str, Any]:
    import torch
    from torch import nn

    os.chdir(tempfile.mkdtemp(prefix="stepscope-spec-"))
    torch.manual_seed(0)
    model = nn.Linear(8, 1)

    def preprocess_data(data: torch.Tensor) -> torch.Tensor:
        time.sleep(0.02)
        return data / 255.0

    samples = torch.utils.data.TensorDataset(torch.randn(24, 8), torch.zeros(24, 1))
    return {
        "num_epochs": 2,
        "data_loader": torch.utils.data.DataLoader(samples, batch_size=4),
        "preprocess_data": preprocess_data,
        "model": model,
        "criterion": nn.MSELoss(),
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
    }


def the_slow_part_is_named_and_reported(names: Names, printed: str) -> None:
    session, summary = names["session"], names["summary"]
    assert not names["profiler"].is_profiling
    assert session.session_id == names["session_id"] == summary["session_id"]
    assert session.session_id.startswith("complete_training_")
    assert re.fullmatch(r"Training completed with [1-9]\d* bottlenecks detected\n", printed)

    of = {one.operation_name: one for one in session.bottlenecks}
    slow = of["preprocessing"]
    assert slow.frequency == 12
    assert 12 * 0.02 <= slow.execution_time < session.duration
    assert 0.4 < slow.severity <= 1
    # The document puts everything within "data_loading": its own part is what counts.
    for epoch in range(2):
        outer = of.get(f"epoch_{epoch}_data_loading")
        assert outer is None or outer.share < slow.share
    assert session.operations["training_step"].calls == 12
    the_report_is_whole(session)


def the_report_is_whole(session: Any) -> None:
    folder = Path("bottleneck_reports")
    page = (folder / f"{session.session_id}_report.md").read_text("utf-8")
    headings = [line for line in page.splitlines() if line.startswith("#")]
    wanted = [
        "# Bottleneck Profiling Report",
        "## Session Summary",
        "## Performance Metrics",
        "## Bottleneck Analysis",
        "### Bottlenecks by Type",
        "#### Preprocessing",
    ]
    assert [heading for heading in headings if heading in wanted] == wanted
    assert "- **preprocessing**: Severity: " in page
    saved = json.loads((folder / f"{session.session_id}_report.json").read_text("utf-8"))
    assert len(saved["bottlenecks"]) == len(session.bottlenecks)
    picture = folder / f"{session.session_id}_visualizations.png"
    assert picture.read_bytes().startswith(b"\x89PNG")


CASES: dict[str, Case] = {
    "Bottleneck Types and Detection": Case(ours_has_every_type, what_they_are_made_of),
    "Profiling Levels": Case(ours_has_every_level, what_they_are_made_of),
    "Threshold Configuration": Case(ours_has_the_same_defaults, what_they_are_made_of),
    "Minimal Code Changes": Case(only_the_second_call_was_measured, a_profiler_and_a_function),
    "Training Loop Integration": Case(the_slow_part_is_named_and_reported, a_training),
}
