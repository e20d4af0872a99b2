from __future__ import annotations

import math
from typing import Any

import pytest

from stepscope import (
    BottleneckProfilerConfig,
    ProfilingConfig,
    ProfilingLevel,
    StepscopeError,
    UsageError,
)

NUMBERS = {
    "sampling_rate": "more than 0 and at most 1",
    "monitoring_interval": "more than 0 and at most 3600",
    "alert_threshold": "more than 0 and at most 1",
    "max_samples": "from 1 to 10,000,000",
    "cpu_threshold": "more than 0 and at most 100",
    "memory_threshold": "more than 0 and at most 100",
    "gpu_threshold": "more than 0 and at most 100",
}
SWITCHES = ("enabled", "auto_optimize", "enable_monitoring", "enable_tracemalloc")


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [-1, 0, math.nan, math.inf, "1", None, True, 10**9, [1]])
def test_a_number_out_of_range_is_refused_with_what_is_allowed(name: str, value: Any) -> None:
    with pytest.raises(UsageError) as refused:
        ProfilingConfig(**{name: value})
    assert name in str(refused.value)
    assert NUMBERS[name] in str(refused.value)
    assert isinstance(refused.value, StepscopeError)


@pytest.mark.parametrize("name", SWITCHES)
@pytest.mark.parametrize("value", [1, 0, None, "yes"])
def test_a_switch_is_true_or_false(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"{name} is True or False, not {value!r}"):
        ProfilingConfig(**{name: value})


def test_samples_are_whole() -> None:
    with pytest.raises(UsageError, match="whole number"):
        ProfilingConfig(max_samples=2.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["everything", "", None, 3, ["basic"]])
def test_an_unknown_level_is_refused_with_the_known_ones(value: Any) -> None:
    with pytest.raises(UsageError) as refused:
        ProfilingConfig(level=value)
    for level in ProfilingLevel:
        assert level.value in str(refused.value)


@pytest.mark.parametrize("value", ["basic", "BASIC", "Basic", ProfilingLevel.BASIC])
def test_a_level_by_its_name(value: Any) -> None:
    assert ProfilingConfig(level=value).level is ProfilingLevel.BASIC


def test_limits_themselves_are_allowed() -> None:
    config = ProfilingConfig(sampling_rate=1, cpu_threshold=100, max_samples=1)
    assert (config.sampling_rate, config.cpu_threshold, config.max_samples) == (1, 100, 1)


def test_settings_are_given_in_the_order_of_the_document() -> None:
    config = ProfilingConfig(True, ProfilingLevel.BASIC, 0.1, True, True, 2.0, 0.9)
    assert config == ProfilingConfig(
        enabled=True,
        level=ProfilingLevel.BASIC,
        sampling_rate=0.1,
        auto_optimize=True,
        enable_monitoring=True,
        monitoring_interval=2.0,
        alert_threshold=0.9,
    )


def test_a_setting_can_be_assigned_and_is_checked_then_too() -> None:
    config = ProfilingConfig()
    config.level = "comprehensive"  # type: ignore[assignment]
    config.cpu_threshold = 95.0
    assert (config.level, config.cpu_threshold) == (ProfilingLevel.COMPREHENSIVE, 95.0)
    with pytest.raises(UsageError, match="cpu_threshold=200"):
        config.cpu_threshold = 200.0
    with pytest.raises(UsageError, match="enabled is True or False"):
        config.enabled = 1  # type: ignore[assignment]
    with pytest.raises(UsageError, match="has no setting 'sampling'"):
        config.sampling = 0.5
    assert config == ProfilingConfig(level=ProfilingLevel.COMPREHENSIVE, cpu_threshold=95.0)


def test_bottleneck_settings_can_be_assigned_and_are_checked_then_too() -> None:
    config = BottleneckProfilerConfig()
    config.memory_threshold = 0.5
    config.worker_range = [0, 2]  # type: ignore[assignment]
    assert (config.memory_threshold, config.worker_range) == (0.5, (0, 2))
    with pytest.raises(UsageError, match=r"for 80 % write 0\.8"):
        config.memory_threshold = 80
