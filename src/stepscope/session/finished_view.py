"""A run that is over, as the live view shows it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.analyze.over_time import histories
from stepscope.errors import FormatError
from stepscope.model.live import GpuNow, LiveView, PhaseNow, RankNow, RunState, Used
from stepscope.session.live_view import command_line
from stepscope.session.run_alerts import alerts_to_show
from stepscope.store.live import live_from_dict, live_to_dict

if TYPE_CHECKING:
    from stepscope.model.details import Details
    from stepscope.model.summary import RankSummary, Summary

__all__ = ["view_of_finished", "view_of_summary"]


def view_of_finished(run: Path) -> LiveView | None:
    """From summary.json and details.json; None: there is no summary. FormatError: it is torn."""
    from stepscope.store.details import read_details
    from stepscope.store.rundir import read_meta
    from stepscope.store.summary import read_summary

    summary = read_summary(run)
    if summary is None:
        return None
    try:
        details = read_details(run)
    except FormatError:  # without them there is no history; the rest can be shown
        details = None
    return view_of_summary(run, read_meta(run) or summary.run, summary, details)


def view_of_summary(
    run: Path,
    meta: Mapping[str, Any],
    summary: Summary,
    details: Details | None,
    state: RunState = RunState.FINISHED,
) -> LiveView:
    """FormatError: something in them is not what it should be."""
    started, ended = meta.get("started_unix"), meta.get("ended_unix")
    timeline = details.timeline if details is not None else None
    notes = summary.coverage.get("notes") if summary.verdict is None else ()
    try:
        lasted_s = summary.wall_ms / 1e3 if started is None or ended is None else ended - started
        view = LiveView(
            run=str(meta.get("name") or run.name),
            state=state,
            told_unix=ended or 0.0,
            command=command_line(meta),
            started_unix=started,
            elapsed_s=max(0.0, lasted_s),
            exit_code=meta.get("exit_code"),
            steps=summary.steps.count,
            steps_per_second=summary.steps.per_second,
            step_ms=summary.steps.median_ms,
            phases=tuple(PhaseNow(one.phase, one.share) for one in summary.breakdown if one.ms > 0),
            used=_used(summary.resources),
            history=histories(timeline) if timeline is not None else (),
            alerts=alerts_to_show(run),
            verdict=summary.verdict,
            ranks=tuple(_rank(one) for one in summary.ranks),
            notes=tuple(map(str, notes or ())),
        )
        return live_from_dict(live_to_dict(view))  # files are from outside: held against the types
    except (AttributeError, TypeError, ValueError) as error:
        raise FormatError(
            f"The results of {run.name} are not what stepscope wrote ({error}): make them anew"
            f" with stepscope report {run.name} after deleting {run / 'summary.json'}."
        ) from error


def _rank(rank: RankSummary) -> RankNow:
    phase = max(rank.shares, key=lambda name: rank.shares[name], default="")
    return RankNow(rank.rank, rank.steps, rank.median_ms, phase, rank.shares.get(phase, 0.0))


def _used(resources: Mapping[str, Any]) -> Used:
    """From `Resources.to_dict`."""
    program, children = _part(resources, "program"), _part(resources, "children")
    gpus = resources.get("gpus")
    return Used(
        cpus=_sum(program.get("cpu_cores"), children.get("cpu_cores")),
        cpu_count=resources.get("cpu_count"),
        host_cpu_share=resources.get("cpu_busy_share"),
        memory_bytes=program.get("peak_rss_bytes"),
        memory_limit_bytes=resources.get("memory_total_bytes"),
        disk_read_bytes_per_s=_sum(
            program.get("read_bytes_per_s"), children.get("read_bytes_per_s")
        ),
        disk_write_bytes_per_s=_sum(
            program.get("write_bytes_per_s"), children.get("write_bytes_per_s")
        ),
        gpus=tuple(_gpu(gpu) for gpu in gpus) if isinstance(gpus, list) else (),
    )


def _gpu(gpu: Mapping[str, Any]) -> GpuNow:
    return GpuNow(
        gpu["index"],
        gpu.get("busy_share"),
        gpu.get("memory_used_bytes"),
        gpu.get("memory_total_bytes"),
        gpu.get("temperature_celsius"),
        gpu.get("power_watts"),
    )


def _part(resources: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = resources.get(name)
    return part if isinstance(part, Mapping) else {}


def _sum(*values: float | None) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
