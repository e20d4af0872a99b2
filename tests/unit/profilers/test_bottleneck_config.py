from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stepscope import BottleneckProfilerConfig, ProfilingConfig, ProfilingLevel, UsageError


def test_both_configurations_start_from_the_same_thresholds() -> None:
    shares, percents = BottleneckProfilerConfig(), ProfilingConfig()
    assert shares.memory_threshold * 100 == percents.memory_threshold
    assert shares.gpu_threshold * 100 == percents.gpu_threshold
    assert shares.percents == percents


def test_a_profiling_configuration_will_do() -> None:
    given = ProfilingConfig(level=ProfilingLevel.BASIC, memory_threshold=70, enabled=False)
    made = BottleneckProfilerConfig.of(given)
    assert made.profiling_level is ProfilingLevel.BASIC
    assert made.memory_threshold == pytest.approx(0.7)
    assert made.enabled is False
    assert BottleneckProfilerConfig.of(made) is made
    assert BottleneckProfilerConfig.of(None) == BottleneckProfilerConfig()


def test_lists_become_tuples_and_names_become_levels() -> None:
    made = BottleneckProfilerConfig(
        profiling_level="basic",  # type: ignore[arg-type]
        batch_size_range=[2, 4],  # type: ignore[arg-type]
        output_directory="here",
    )
    assert made.profiling_level is ProfilingLevel.BASIC
    assert made.batch_size_range == (2, 4)
    assert made.folder == Path("here")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"memory_threshold": 80}, r"memory_threshold=80 .* for 80 % write 0\.8"),
        ({"bottleneck_threshold": 0}, "more than 0 and at most 1"),
        ({"gpu_threshold": "x"}, "gpu_threshold='x'"),
        ({"sampling_interval": 0}, "seconds"),
        ({"enable_caching": 1}, "enable_caching is True or False, not 1"),
        ({"batch_size_range": [0]}, "whole numbers from 1 on"),
        ({"batch_size_range": []}, "whole numbers from 1 on"),
        ({"worker_range": [-1]}, "whole numbers from 0 on"),
        ({"worker_range": "12"}, "whole numbers from 0 on"),
        ({"cache_size": 0}, "cache_size"),
        ({"profiling_level": "loud"}, "profiling_level='loud' is not known: use one of"),
        ({"output_directory": 3}, "output_directory is a path"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_is_allowed(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        BottleneckProfilerConfig(**settings)


def test_something_else_is_no_configuration() -> None:
    with pytest.raises(UsageError, match="BottleneckProfilerConfig or a ProfilingConfig"):
        BottleneckProfilerConfig.of({"level": 1})  # type: ignore[arg-type]
