"""A program for monitor_cost.py: idle, or training, with and without a monitor in it.

    python watched.py RESULT idle INTERVAL TURNS SECONDS    # in turns with a monitor and without
    python watched.py RESULT training INTERVAL SECONDS      # what the monitor takes meanwhile
    python watched.py RESULT memory INTERVAL STEPS          # INTERVAL 0: without a monitor

RESULT: a file for the JSON that it finds.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from stepscope import PerformanceMonitor  # a bare run does not import it

SETTLE_S = 12.0  # a monitor has looked at everything once by then


def monitor_every(interval_s: float) -> PerformanceMonitor:
    """That other programs keep the machine busy is not to be an alert here."""
    from stepscope import PerformanceMonitor, ProfilingConfig

    config = ProfilingConfig(
        monitoring_interval=interval_s, cpu_threshold=100.0, memory_threshold=100.0
    )
    return PerformanceMonitor(config)


# ---- idle ----


def idle(interval_s: float, turns: int, seconds: float) -> dict[str, object]:
    """CPU seconds a second of the whole process, in turns with the monitor and without. Before the
    first turn nothing of us runs; between them, what writes events does."""
    found: dict[str, list[float]] = {"on": [], "off": [], "before": [cpu_share(seconds / 2)]}
    for _ in range(turns):
        monitor = monitor_every(interval_s)
        monitor.start_monitoring()
        time.sleep(SETTLE_S)
        found["on"].append(cpu_share(seconds))
        monitor.stop_monitoring()
        time.sleep(2.0)  # its threads end
        found["off"].append(cpu_share(seconds / 2))
    return {**found, "interval_s": interval_s, "seconds": seconds}


def cpu_share(seconds: float) -> float:
    began_s, cpu_s = time.monotonic(), time.process_time()
    time.sleep(seconds)
    return (time.process_time() - cpu_s) / (time.monotonic() - began_s)


# ---- training ----


def make_step() -> Callable[[], None]:
    """A convolutional network, about 0.2 s a step on two CPUs."""
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Conv2d(3, 32, 3, padding=1), nn.ReLU()]
    for _ in range(4):
        layers += [nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU()]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images, labels = torch.randn(24, 3, 32, 32), torch.randint(0, 10, (24,))

    def step() -> None:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()

    return step


def train(step: Callable[[], None], seconds: float) -> int:
    steps, until_s = 0, time.monotonic() + seconds
    while time.monotonic() < until_s:
        step()
        steps += 1
    return steps


def training(interval_s: float, seconds: float) -> dict[str, object]:
    """CPU time of the monitor's threads, and what it takes of the thread that trains: its hooks,
    the work that tells the machine's speed, and closer looks at steps. A second of training."""
    from stepscope.session.inside import inside

    step = make_step()
    monitor = monitor_every(interval_s)
    monitor.start_monitoring()
    train(step, SETTLE_S)
    core = inside().recorder.core
    before, cpu_ns, began_ns = core.counters(), threads_cpu_ns(), time.monotonic_ns()
    steps = train(step, seconds)
    ended_ns = time.monotonic_ns()
    passed_s = (ended_ns - began_ns) / 1e9
    cpu_ns, after = threads_cpu_ns() - cpu_ns, core.counters()
    spent = {name: after[name] - before[name] for name in _HOOKS}
    monitor.stop_monitoring()
    alerts = [alert.message for alert in monitor.alerts if alert.is_firing]
    return {
        "interval_s": interval_s,
        "alerts": alerts,  # looking into one takes some 10 ms, and more the first time
        "steps": steps,
        "seconds": passed_s,
        "threads_share": cpu_ns / 1e9 / passed_s,
        "hooks_share": hooks_ns(*(spent[name] for name in _HOOKS)) / 1e9 / passed_s,
        "looks_share": looks_ns(began_ns, ended_ns) / 1e9 / passed_s,
        "steps_seen": monitor.get_monitoring_summary()["steps"],
    }


def threads_cpu_ns() -> int:
    """Of our threads that run now, those of the native core too."""
    python = {one.native_id: one.name for one in threading.enumerate()}
    spent_ns = 0
    for task in Path("/proc/self/task").iterdir():
        name = python.get(int(task.name), (task / "comm").read_text())
        if name.startswith("stepscope") and not name.startswith("stepscope-stacks"):  # looks_ns
            spent_ns += int((task / "schedstat").read_text().split()[0])
    return spent_ns


_HOOKS = ("calls", "clocks", "probes")


def hooks_ns(calls: int, clocks: int, probes: int) -> float:
    """By what one takes here, as it was measured when torch was hooked."""
    from stepscope.session.inside import inside

    cost = inside()._program._cost
    if cost is None:
        raise RuntimeError("what a hook takes was not measured")
    return calls * cost.call_ns + clocks * cost.clock_ns + probes * cost.probe_ns


def looks_ns(began_ns: int, ended_ns: int) -> float:
    """What was done between steps in that time, and for stacks, as it was recorded."""
    from stepscope.model import names
    from stepscope.session.inside import inside
    from stepscope.store.frames import FramesReader

    own = (
        names.OWN_REFERENCE_NS, names.OWN_STEP_ENDS_NS, names.OWN_STACKS_CPU_NS,
        names.OWN_SAMPLED_NS, names.OWN_OP_LOG_NS, names.OWN_OPERATORS_NS,
    )  # fmt: skip
    base = inside().base
    totals: dict[str, list[tuple[int, float]]] = {name: [] for name in own}
    for path in sorted(base.parent.glob(f"{base.name}.*.frames")):
        for batch in FramesReader(path).read_new():
            for name, place in batch.places(own):
                time_ns, value = batch.columns["time_ns"][place], batch.columns["value"][place]
                totals[name].append((time_ns, value))
    spent_ns = 0.0
    for readings in totals.values():  # counted from the start of the process on
        before = [value for time_ns, value in readings if time_ns < began_ns]
        by_then = [value for time_ns, value in readings if time_ns <= ended_ns]
        spent_ns += max(by_then, default=0.0) - max(before, default=0.0)
    return spent_ns


# ---- memory ----


def memory(interval_s: float, steps: float) -> dict[str, object]:
    """What the process holds after so many steps of a small model: what a large one needs varies
    from run to run by more than a monitor takes."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.randn(32, 64)
    monitor = monitor_every(interval_s) if interval_s else None
    if monitor is not None:
        monitor.start_monitoring()
    for _ in range(int(steps)):
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
        time.sleep(0.01)
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    kib = {line.split(":")[0]: int(line.split()[1]) for line in lines if line.endswith(" kB")}
    return {"rss_mb": kib["Rss"] / 1024, "anonymous_mb": kib["Anonymous"] / 1024}


def main() -> None:
    result, what, *numbers = sys.argv[1:]
    torch.set_num_threads(2)
    if what == "idle":
        found = idle(float(numbers[0]), int(numbers[1]), float(numbers[2]))
    else:
        found = {"training": training, "memory": memory}[what](*map(float, numbers))
    Path(result).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
