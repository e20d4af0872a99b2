"""A session of a BottleneckProfiler as a picture of four panels (matplotlib, an extra)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from stepscope.errors import MissingExtraError
from stepscope.model.bottlenecks import BottleneckProfile, ProfilingSession

__all__ = ["draw_session", "draw_with"]

_MOST = 12  # bars; what is less severe is left out, and the title says so
_BLUE, _GREY = "#2b6cb0", "#6b7280"


def draw_session(session: ProfilingSession, path: Path) -> None:
    """Severity, frequency, potential, and memory over time. MissingExtraError: no matplotlib."""
    draw_with(_panels, session, path)


def draw_with(
    draw: Callable[[ProfilingSession, Any], object], session: ProfilingSession, path: Path
) -> None:
    """Write what `draw` puts into an empty Figure. MissingExtraError: no matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("matplotlib", "plots") from None

    figure = Figure(figsize=(13, 8.5), layout="constrained")  # no pyplot: no state of the user's
    FigureCanvasAgg(figure)
    draw(session, figure)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a name in letters that the font lacks is no error
        figure.savefig(path, dpi=150)


def _panels(session: ProfilingSession, figure: Any) -> None:
    shown = session.bottlenecks[:_MOST]
    (severity, frequency), (potential, usage) = figure.subplots(2, 2)
    left_out = len(session.bottlenecks) - len(shown)
    more = f" · {left_out} less severe not shown" if left_out else ""
    title = f"{session.session_id} · {session.verdict or 'no verdict'}{more}"
    figure.suptitle(_plain(title), fontsize=11)
    severities = [one.severity for one in shown]
    _bars(severity, shown, severities, "Bottleneck Severity", "Severity (0-1)", "{:.2f}")
    severity.set_xlim(0, 1.12)
    counts = [float(one.frequency) for one in shown]
    _bars(frequency, shown, counts, "Bottleneck Frequency", "Frequency", "{:,.0f}")
    potentials = [one.optimization_potential for one in shown]
    _bars(potential, shown, potentials, "Optimization Potential", "Potential (0-1)", "{:.2f}")
    potential.set_xlim(0, 1.12)
    _usage(usage, session.memory_profile, session.gpu_profile)


def _bars(
    axes: Any,
    shown: Sequence[BottleneckProfile],
    values: Sequence[float | None],
    title: str,
    label: str,
    text: str,
) -> None:
    """The worst on top; "not measured" where there is no figure."""
    axes.set_title(title)
    axes.set_xlabel(label)
    axes.spines[["top", "right"]].set_visible(False)
    if not shown:
        axes.set_yticks([])
        axes.text(0.5, 0.5, "no bottleneck was found", ha="center", va="center", color=_GREY,
                  transform=axes.transAxes)  # fmt: skip
        return
    places = range(len(shown))
    axes.barh(places, [value or 0.0 for value in values], color=_BLUE, height=0.62)
    axes.set_yticks(places, [_short(one.operation_name) for one in shown])
    axes.invert_yaxis()
    axes.margins(x=0.12)
    for place, value in zip(places, values, strict=True):
        words = " not measured" if value is None else f" {text.format(value)}"
        axes.text(value or 0.0, place, words, va="center", fontsize=8, color=_GREY)


def _usage(axes: Any, memory: Mapping[float, float], gpu: Mapping[float, float]) -> None:
    axes.set_title("Resource Usage Over Time")
    axes.set_xlabel("Time (s)")
    axes.set_ylabel("Usage (%)")
    axes.set_ylim(0, 100)
    axes.spines[["top", "right"]].set_visible(False)
    for points, label, color in ((memory, "Memory Usage", _BLUE), (gpu, "GPU Memory Usage", "C1")):
        if points:
            mark = "o" if len(points) < 3 else None
            axes.plot(list(points), list(points.values()), label=label, color=color, marker=mark)
    if memory or gpu:
        axes.legend(frameon=False)
    else:
        axes.text(0.5, 0.5, "not sampled", ha="center", va="center", color=_GREY,
                  transform=axes.transAxes)  # fmt: skip


def _short(name: str) -> str:
    return _plain(name if len(name) <= 28 else f"{name[:27]}…")


def _plain(text: str) -> str:
    """What stands between two dollars would be read as mathematics."""
    return text.replace("$", r"\$")
