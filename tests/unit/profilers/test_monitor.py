"""PerformanceMonitor: alerts, callbacks and what it sums up, in this process."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import stepscope
from stepscope import PerformanceMonitor, ProfilingConfig, UsageError
from stepscope.model.alert import Alert
from stepscope.session.inside import inside

PATIENCE_S = 30.0
HOT = {"threshold": [{"metric": "heat", "above": 100.0, "severity": 0.9, "name": "too hot"}]}


@pytest.fixture
def made() -> Iterator[Callable[..., PerformanceMonitor]]:
    """Makes monitors, and stops them after the test."""
    monitors: list[PerformanceMonitor] = []

    def make(**settings: Any) -> PerformanceMonitor:
        quiet = {"cpu_threshold": 100.0, "memory_threshold": 100.0, "monitoring_interval": 0.05}
        monitors.append(PerformanceMonitor(ProfilingConfig(**quiet | settings)))
        return monitors[-1]

    yield make
    for monitor in monitors:
        monitor.stop_monitoring()


def until(is_true: Callable[[], object]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < end_s
        time.sleep(0.01)


def test_what_it_saw_is_plain_json_in_percent_and_gigabytes(
    made: Callable[..., PerformanceMonitor],
) -> None:
    monitor = made()
    monitor.start_monitoring()
    held = bytearray(64 << 20)
    first = monitor.get_monitoring_summary()
    assert first["is_monitoring"]
    print(f"Avg CPU: {first['avg_cpu_usage']:.1f}%, {first['avg_memory_usage']:.2f}GB")
    until(lambda: monitor.get_monitoring_summary()["metrics"]["memory_bytes"]["count"] >= 5)
    monitor.stop_monitoring()

    found = monitor.get_monitoring_summary()
    assert not found["is_monitoring"]
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert len(held) / 2**30 < found["avg_memory_usage"] <= found["peak_memory_usage"] < 100
    assert 0 <= found["avg_cpu_usage"] <= 100
    assert found["duration"] > 0
    assert {"average", "peak", "p50", "p95", "p99", "trend"} <= found["metrics"]["cpu_ratio"].keys()


def test_what_there_is_not_is_none_and_named(made: Callable[..., PerformanceMonitor]) -> None:
    monitor = made()
    for is_started in (False, True):
        if is_started:
            monitor.start_monitoring()
        found = monitor.get_monitoring_summary()
        assert found["avg_step_time"] is None
        assert found["steps"] == 0
        assert "step_seconds" in found["not_measured"]
        if not Path("/proc/driver/nvidia").exists():
            assert found["avg_gpu_usage"] is None
            assert "gpu_busy_ratio" in found["not_measured"]


def test_an_alert_reaches_plain_and_async_functions_once_and_reads_like_a_mapping(
    made: Callable[..., PerformanceMonitor],
) -> None:
    monitor = made(rules=HOT)
    told: list[tuple[str, float, str]] = []

    async def handler(alert: Alert) -> None:
        told.append((alert["message"], alert["severity"], threading.current_thread().name))

    def plain(alert: Alert) -> None:
        told.append((alert["message"], alert["severity"], threading.current_thread().name))

    monitor.add_alert_callback(handler)
    monitor.add_alert_callback(plain)
    with monitor:
        stepscope.metric("heat", 150.0)
        until(lambda: monitor.get_monitoring_summary()["open_alerts"])
        stepscope.metric("heat", 160.0)
        monitor.get_monitoring_summary()

    assert len(told) == 2
    assert {severity for _, severity, _ in told} == {0.9}
    assert all("too hot" in message for message, _, _ in told)
    assert {thread for _, _, thread in told} == {"stepscope-alerts"}
    assert [alert.state for alert in monitor.alerts] == ["firing", "resolved"]
    found = monitor.get_monitoring_summary()
    assert found["alert_count"] == 1
    assert found["open_alerts"] == []


def test_the_samplers_thread_finds_alerts_by_itself(
    made: Callable[..., PerformanceMonitor],
) -> None:
    monitor = made(rules=HOT)
    told: list[Alert] = []
    monitor.add_alert_callback(told.append)
    monitor.start_monitoring()
    stepscope.metric("heat", 150.0)
    until(lambda: told)


def test_callbacks_hear_of_what_is_bad_enough_and_of_what_becomes_so(
    made: Callable[..., PerformanceMonitor],
) -> None:
    by_how_far = {"threshold": [{"metric": "heat", "above": 100.0}]}
    monitor = made(rules=by_how_far, alert_threshold=0.85)
    told: list[Alert] = []
    monitor.add_alert_callback(told.append)
    monitor.start_monitoring()
    stepscope.metric("heat", 101.0)
    until(lambda: monitor.get_monitoring_summary()["open_alerts"])
    assert monitor.alerts[0].severity < 0.85
    assert told == []
    stepscope.metric("heat", 500.0)
    until(lambda: monitor.get_monitoring_summary() and told)
    assert told[0].id == monitor.alerts[0].id
    assert told[0].severity >= 0.85


def test_an_error_in_a_callback_is_counted_and_the_others_are_told(
    made: Callable[..., PerformanceMonitor],
) -> None:
    monitor = made(rules=HOT)
    told: list[Alert] = []
    monitor.add_alert_callback(lambda alert: 1 / 0)
    monitor.add_alert_callback(told.append)
    with monitor:
        stepscope.metric("heat", 150.0)
        until(lambda: monitor.get_monitoring_summary()["open_alerts"])
    assert len(told) == 1
    assert monitor.get_monitoring_summary()["callback_errors"] == 1
    monitor.remove_alert_callback(told.append)
    with pytest.raises(UsageError, match="no callback"):
        monitor.remove_alert_callback(told.append)
    with pytest.raises(UsageError, match="function"):
        monitor.add_alert_callback("print")  # type: ignore[arg-type]


def test_it_can_be_started_again_and_begins_anew(made: Callable[..., PerformanceMonitor]) -> None:
    monitor = made(rules=HOT)
    for _ in range(2):
        monitor.start_monitoring()
        monitor.start_monitoring()
        assert monitor.alerts == []
        stepscope.metric("heat", 150.0)
        until(lambda: monitor.get_monitoring_summary()["open_alerts"])
        monitor.stop_monitoring()
        monitor.stop_monitoring()
        assert len(monitor.alerts) == 2


def test_several_monitors_do_not_mind_each_other(made: Callable[..., PerformanceMonitor]) -> None:
    one, other = made(rules=HOT), made(monitoring_interval=0.2)
    with one:
        with other:
            stepscope.metric("heat", 150.0)
            until(lambda: one.get_monitoring_summary()["open_alerts"])
            assert other.get_monitoring_summary()["metrics"]["heat"]["last"] == 150.0
        assert one.is_monitoring
        assert not other.is_monitoring
    assert other.alerts == []


def test_steps_of_a_training_loop_are_counted(made: Callable[..., PerformanceMonitor]) -> None:
    import torch

    monitor = made()
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with monitor:
        for _ in range(80):
            optimizer.zero_grad()
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
    found = monitor.get_monitoring_summary()
    assert 74 <= found["steps"] <= 80, "the last ones are not known to be over"
    assert found["avg_step_time"] > 0


def test_sinks_are_told_too(made: Callable[..., PerformanceMonitor], tmp_path: Path) -> None:
    path = tmp_path / "alerts.log"
    monitor = made(rules=HOT, sinks=[{"type": "log", "path": str(path)}])
    with monitor:
        stepscope.metric("heat", 150.0)
        until(lambda: monitor.get_monitoring_summary()["open_alerts"])
    assert monitor.get_monitoring_summary()["problems"] == []
    lines = path.read_text("utf-8").splitlines()
    assert len([line for line in lines if "too hot" in line]) == 2, "its begin and its end"


TAKES = """
import pathlib, sys
ready, told = map(pathlib.Path, sys.argv[1:])
if not ready.exists():
    sys.exit("not now")
with told.open("a", encoding="utf-8") as file:
    file.write(sys.stdin.read().strip() + chr(10))
"""


def test_what_a_sink_did_not_take_waits_in_a_folder_for_the_next_monitor(
    made: Callable[..., PerformanceMonitor], tmp_path: Path
) -> None:
    script, ready, told = tmp_path / "takes.py", tmp_path / "ready", tmp_path / "told"
    script.write_text(TAKES, "utf-8")
    command = [sys.executable, str(script), str(ready), str(told)]
    settings: dict[str, Any] = {
        "sinks": [{"type": "command", "command": command}],
        "alerts_dir": tmp_path / "alerts",
    }
    with made(rules=HOT, **settings) as monitor:
        stepscope.metric("heat", 150.0)
        until(lambda: monitor.get_monitoring_summary()["open_alerts"])
    assert "could not be told" in monitor.get_monitoring_summary()["problems"][0]
    assert not told.exists()
    ready.touch()
    for _ in range(2):  # the second one has nothing left to do
        with made(rules=HOT, **settings):
            until(told.exists)
    lines = [json.loads(line) for line in told.read_text("utf-8").splitlines()]
    assert sorted(line["state"] for line in lines) == ["firing", "resolved"]
    folders = [path for path in (tmp_path / "alerts").iterdir() if path.is_dir()]
    assert len(folders) == 1, "those with nothing to tell are gone"


def test_a_folder_for_alerts_that_cannot_be_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "alerts"
    with pytest.raises(UsageError, match="name a folder"):
        PerformanceMonitor(
            ProfilingConfig(sinks=[{"type": "log"}], alerts_dir=folder)
        ).start_monitoring()


def test_rules_may_stand_in_a_file(made: Callable[..., PerformanceMonitor], tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text('[[threshold]]\nmetric = "heat"\nabove = 100\n', "utf-8")
    monitor = made(rules=path)
    with monitor:
        stepscope.metric("heat", 150.0)
        until(lambda: monitor.get_monitoring_summary()["open_alerts"])


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"rules": {"rule": {}}}, "rules"),
        ({"rules": {"threshold": {"metric": "heat"}}}, "threshold"),
        ({"rules": "/nowhere/rules.toml"}, "nowhere"),
        ({"rules": 3}, "rules.toml"),
        ({"sinks": {"type": "log"}}, "list"),
        ({"alerts_dir": 3}, "folder"),
    ],
)
def test_rules_and_sinks_that_cannot_be_are_refused_with_what_is_wrong(
    settings: dict[str, Any], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        PerformanceMonitor(ProfilingConfig(**settings))


def test_a_monitor_can_be_switched_on_and_set_between_two_starts() -> None:
    monitor = PerformanceMonitor(ProfilingConfig(enabled=False))
    monitor.add_alert_callback(print)
    monitor.start_monitoring()
    assert monitor.get_monitoring_summary()["is_monitoring"] is False
    monitor.config.enabled = True
    monitor.config.monitoring_interval = 0.25
    with monitor:
        assert monitor.get_monitoring_summary()["is_monitoring"] is True
        monitor.config.monitoring_interval = 0.5
        assert monitor.get_monitoring_summary()["monitoring_interval"] == 0.25
    monitor.remove_alert_callback(print)
    with monitor:
        assert monitor.get_monitoring_summary()["monitoring_interval"] == 0.5


def test_a_sink_that_does_not_exist_is_refused_when_it_starts() -> None:
    monitor = PerformanceMonitor(ProfilingConfig(sinks=[{"type": "pigeon"}]))
    with pytest.raises(UsageError, match="pigeon"):
        monitor.start_monitoring()
    assert not monitor.is_monitoring


def test_one_that_nobody_has_any_more_stops() -> None:
    monitor = PerformanceMonitor(ProfilingConfig(monitoring_interval=0.05))
    monitor.start_monitoring()
    watchers = len(inside()._watchers)
    del monitor
    gc.collect()
    until(lambda: len(inside()._watchers) == watchers - 1)


def test_a_forked_child_is_not_watched_and_the_parent_goes_on(
    made: Callable[..., PerformanceMonitor],
) -> None:
    monitor = made(rules=HOT)
    told: list[Alert] = []
    monitor.add_alert_callback(told.append)
    monitor.start_monitoring()
    child = os.fork()
    if child == 0:
        os._exit(int(monitor.is_monitoring) + 2 * bool(inside()._watchers))
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    stepscope.metric("heat", 150.0)
    until(lambda: told)


NOTHING = """
import sys, threading
from stepscope import PerformanceMonitor, ProfilingConfig
monitor = PerformanceMonitor(ProfilingConfig(enabled=False))
monitor.add_alert_callback(print)
monitor.start_monitoring()
summary = monitor.get_monitoring_summary()
monitor.stop_monitoring()
monitor.remove_alert_callback(print)
assert summary["enabled"] is False and summary["avg_cpu_usage"] is None, summary
assert monitor.alerts == [] and not monitor.is_monitoring
assert threading.active_count() == 1
assert "stepscope.session.inside" not in sys.modules
"""

LEFT_RUNNING = """
import stepscope, sys, time
from stepscope import PerformanceMonitor, ProfilingConfig
rules = {"threshold": [{"metric": "heat", "above": 1, "severity": 0.9}]}
config = ProfilingConfig(rules=rules, monitoring_interval=0.05)
monitor = PerformanceMonitor(config)
monitor.add_alert_callback(lambda alert: print("told", flush=True))
monitor.add_alert_callback(lambda alert: time.sleep(3600))
monitor.start_monitoring()
stepscope.metric("heat", 2.0)
"""


STANDS_STILL = """
import time, torch
from stepscope import PerformanceMonitor, ProfilingConfig
torch.set_num_threads(1)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
rules = {"rules": {"stall": {"least": "1s"}, "anomaly": {"enabled": False}}}
config = ProfilingConfig(rules=rules, monitoring_interval=0.1, alert_threshold=0.1)
def train(steps):
    for _ in range(steps):
        model(torch.ones(4, 8)).sum().backward()
        optimizer.step()
        time.sleep(0.005)
def stands_still():
    while not monitor.alerts and time.monotonic() < end_s:
        time.sleep(0.05)
with PerformanceMonitor(config) as monitor:
    train(200)
    end_s = time.monotonic() + 60.0
    stands_still()
    stall = monitor.alerts[0]
    print(stall.rule, stall.finding.location.function)
"""


@pytest.mark.parametrize(
    ("program", "printed"),
    [(NOTHING, ""), (LEFT_RUNNING, "told\n"), (STANDS_STILL, "stall stands_still\n")],
)
def test_in_a_program_of_its_own(program: str, printed: str, tmp_path: Path) -> None:
    """Switched off it does nothing at all. Left running, it tells what it knows at the end, and a
    function that hangs does not hold that up. What stands still is found where it stands."""
    script = tmp_path / "train.py"
    script.write_text(program)
    ended = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, printed, "")


FORKS_WHILE_SUSPECTED = """
import os, time, torch
from stepscope import PerformanceMonitor, ProfilingConfig
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
rules = {"rules": {"stall": {"least": "0.2s", "after": 2.0}}, "watch": {"resolve": "0.1s"}}
config = ProfilingConfig(rules=rules, monitoring_interval=0.01)
with PerformanceMonitor(config):
    end_s = time.monotonic() + 8.0
    while time.monotonic() < end_s:
        for _ in range(10):
            model(torch.ones(4, 8)).sum().backward()
            optimizer.step()
        for _ in range(200):  # a stall, for our purpose
            child = os.fork()
            if child == 0:
                os._exit(0)
            os.waitpid(child, 0)
            time.sleep(0.003)
print("done")
"""


def test_forks_while_stacks_begin_and_end_to_be_sampled_are_safe() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", FORKS_WHILE_SUSPECTED],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr


def test_a_profiler_after_a_monitor_is_sampled_at_once(
    made: Callable[..., PerformanceMonitor],
) -> None:
    """The monitor's thread sleeps for seconds; who measures does not wait for it."""
    profiler = stepscope.PerformanceProfiler()
    with made(monitoring_interval=1.0):
        pass
    collector = inside()._collector
    for _ in range(2):
        with profiler.profile("block"):
            time.sleep(0.05)
            assert collector.interval_s < 1.0
            assert collector.full_s == 0.0
