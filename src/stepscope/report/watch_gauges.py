"""The figures of the live view: each with its unit, and its course over the run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from stepscope.model.live import GpuNow, History, LiveView, ToldNow, Unit, Used
from stepscope.report.units import bytes_text, percent
from stepscope.report.watch_words import long_time, value_text

__all__ = ["Gauge", "gauges"]

_TIGHT = 0.9  # of a limit: worth a colour


@dataclass(frozen=True, slots=True)
class Gauge:
    """low, high: where the lowest and the highest bar of its course stand."""

    name: str
    text: str
    points: tuple[float | None, ...] = ()
    low: float = 0.0
    high: float = 0.0
    style: str = ""


def gauges(view: LiveView, *, everything: bool = False) -> list[Gauge]:
    """What is known, in the order of what one looks for. everything: not only the most telling."""
    history = {one.name: one for one in view.history}
    found = [
        *_steps(view, history, everything=everything),
        *(_told(one) for one in (view.told if everything else view.told[:1])),
        *_memory(view, history.get("memory")),
        *_cpu(view.used, history.get("CPU")),
        *_gpus(view.used, history.get("GPU"), everything=everything),
    ]
    return found + (list(_others(view.used)) if everything else [])


def _steps(view: LiveView, history: dict[str, History], *, everything: bool) -> Iterator[Gauge]:
    known = {
        "step time": view.step_ms,
        "steps/s": view.steps_per_second,
        "input wait": next(
            (
                phase.share if phase.recent_share is None else phase.recent_share
                for phase in view.phases
                if phase.phase == "input wait"
            ),
            None,
        ),
    }
    for name, value in known.items():
        one = history.get(name)
        if value is not None and (everything or name != "steps/s"):
            unit = one.unit if one is not None else Unit.PLAIN
            high = 1.0 if unit is Unit.SHARE else _most(one)
            yield _gauge(name, value_text(unit, value), one, high)


def _memory(view: LiveView, history: History | None) -> Iterator[Gauge]:
    used = view.used
    if used.memory_bytes is None:
        return
    text = f"{'at most ' if view.is_over else ''}{bytes_text(used.memory_bytes)}"
    tight = False
    if used.memory_limit_bytes:
        text += f" of {bytes_text(used.memory_limit_bytes)}"
        tight = used.memory_bytes > _TIGHT * used.memory_limit_bytes
    if used.memory_full is not None:
        text += f", full in {long_time(used.memory_full.seconds)}"
        tight = True
    yield _gauge("memory", text, history, _most(history), "bold red" if tight else "")


def _cpu(used: Used, history: History | None) -> Iterator[Gauge]:
    if used.cpus is None:
        return
    text = f"{used.cpus:.1f}" + (f" of {used.cpu_count:.3g}" if used.cpu_count else "") + " CPUs"
    yield _gauge("CPU", text, history, max(used.cpu_count or 0.0, _most(history)))


def _gpus(used: Used, history: History | None, *, everything: bool) -> Iterator[Gauge]:
    """In the overview the GPUs together, which is what the history is of."""
    busy = [gpu.busy_share for gpu in used.gpus if gpu.busy_share is not None]
    if busy:
        count = f", {len(busy)} GPUs" if len(busy) > 1 else ""
        yield _gauge("GPU", f"{percent(sum(busy) / len(busy))} busy{count}", history, 1.0)
    for gpu in used.gpus if everything else ():
        yield Gauge(f"GPU {gpu.index}", ", ".join(_gpu_facts(gpu)))


def _gpu_facts(gpu: GpuNow) -> Iterator[str]:
    if gpu.busy_share is not None:
        yield f"{percent(gpu.busy_share)} busy"
    if gpu.memory_bytes is not None:
        total = f" of {bytes_text(gpu.memory_total_bytes)}" if gpu.memory_total_bytes else ""
        yield f"{bytes_text(gpu.memory_bytes)}{total}"
    if gpu.temperature_celsius is not None:
        yield f"{gpu.temperature_celsius:.0f} °C"
    if gpu.power_watts is not None:
        yield f"{gpu.power_watts:.0f} W"


def _others(used: Used) -> Iterator[Gauge]:
    if used.host_cpu_share is not None:
        yield Gauge("machine", f"{percent(used.host_cpu_share)} of its CPUs busy")
    for name, rate in (
        ("disk reads", used.disk_read_bytes_per_s),
        ("disk writes", used.disk_write_bytes_per_s),
    ):
        if rate is not None:
            yield Gauge(name, f"{bytes_text(rate)}/s")


def _told(one: ToldNow) -> Gauge:
    """A loss may lie anywhere: its course is drawn between its least and its most."""
    text = "not a number" if one.value is None else f"{one.value:.4g}"
    known = [point for point in one.points if point is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    return Gauge(one.name, text, one.points, low, high, "bold red" if one.value is None else "")


def _gauge(name: str, text: str, of: History | None, high: float, style: str = "") -> Gauge:
    return Gauge(name, text, of.points if of is not None else (), 0.0, high, style)


def _most(history: History | None) -> float:
    known = [point for point in history.points if point is not None] if history else []
    return max(known, default=0.0)
