"""A run as one page that opens from disk: no network, no other file, nothing that runs unasked.

Whatever comes from the user's program is escaped by the template engine, and made visible where it
could not be seen (control characters, marks that turn the direction of writing).
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from stepscope.model.details import Details, FlameNode
from stepscope.model.finding import Location
from stepscope.model.memory import Memory
from stepscope.model.phases import Phase
from stepscope.model.source import Source
from stepscope.model.summary import Summary
from stepscope.model.timeline import Timeline
from stepscope.printer import make_visible
from stepscope.report import units
from stepscope.report.charts import Chart, Line, bucket_label, line_chart, step_chart
from stepscope.report.checkpoint_panel import checkpoint_panel
from stepscope.report.excerpts import Excerpts
from stepscope.report.flames import lay_out
from stepscope.report.memory_icicle import category_class
from stepscope.report.memory_panel import memory_panel
from stepscope.report.shorten import shorten

__all__ = ["render_memory_page", "render_page"]

_TEMPLATES = Path(__file__).with_name("templates")
_LAYERS, _LINES, _STACKS, _OPERATIONS, _RANKS = 300, 8, 8, 100, 64
_SENTENCE = re.compile(r"[A-Z][a-z]* [a-z(]")


class _Resource(NamedTuple):
    title: str
    chart: Chart
    limit: str  # what the line across means


def render_page(summary: Summary, details: Details | None, source: Source) -> str:
    """The text of report.html. `source` reads the user's lines."""
    style, script = _asset("report.css"), _asset("report.js")
    found = details or Details()
    folder = str(summary.run.get("cwd") or "")
    return _environment(folder).get_template("report.html.j2").render(
        style=Markup(style),
        script=Markup(script),
        policy=_policy(style, script),
        summary=summary,
        verdict=summary.verdict,
        first=summary.findings[0] if summary.findings else None,
        why_no_verdict=_first_note(summary),
        notes=_notes(summary),
        breakdown=[part for part in summary.breakdown if part.ms > 0],
        details=found,
        timeline=found.timeline,
        steps=_steps(found.timeline),
        resources=_resources(found.timeline),
        stacks=[stacks for stacks in found.stacks if stacks.lines or stacks.flame][:_STACKS],
        layers=found.layers[:_LAYERS],
        operations=summary.operations[:_OPERATIONS],
        ranks=summary.ranks[:_RANKS],
        excerpts=Excerpts(source, details),
        own_files=_own_files(found),
        lines_shown=_LINES,
        memory=None if found.memory is None else memory_panel(found.memory),
        checkpointing=None if found.checkpointing is None
        else checkpoint_panel(found.checkpointing),
    )  # fmt: skip


def render_memory_page(memory: Memory, name: str, folder: str, source: Source) -> str:
    """A page of nothing but memory, of a run or of another tool's file."""
    style, script = _asset("report.css"), _asset("report.js")
    return _environment(folder).get_template("memory_page.html.j2").render(
        style=Markup(style),
        script=Markup(script),
        policy=_policy(style, script),
        name=name,
        excerpts=Excerpts(source, None),
        memory=memory_panel(memory),
    )  # fmt: skip


def _environment(folder: str) -> Environment:
    """`folder`: names of files below it are shown from there."""
    made = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_visible,
    )
    made.filters |= {
        "percent": _unbroken(units.percent),
        "factor": units.factor,
        "duration": _unbroken(units.duration),
        "bytes": _unbroken(units.bytes_text),
        "amount": units.amount,
        "steps": units.steps_text,
        "warm_up_text": units.warm_up_text,
        "all_steps": units.all_steps_text,
        "is_code": _is_code,
        "sentence": _sentence,
        "short": shorten,
        "place": partial(_place, folder),
        "phase_class": _phase_class,
        "category_class": category_class,
        "lay_out": lay_out,
        "frame_title": partial(_frame_title, folder),
        "file": partial(_file, folder),
        "pct": _pct,
    }
    return made


def _unbroken(text: Callable[[float], str]) -> Callable[[float], str]:
    """A number and its unit stay on one line."""
    return lambda value: text(value).replace(" ", "\u00a0")


def _is_code(action: str) -> bool:
    """Advice is either something to type or a sentence."""
    return _SENTENCE.match(action) is None


def _asset(name: str) -> str:
    return (_TEMPLATES / name).read_text("utf-8")


def _policy(style: str, script: str) -> str:
    """Only the style and the script of this page, and nothing from anywhere else."""
    return (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}';"
        " img-src data:; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _visible(value: Any) -> Any:
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return make_visible(value)


def _first_note(summary: Summary) -> str:
    notes = summary.coverage.get("notes") or ["No training loop was found."]
    return str(notes[0])


def _notes(summary: Summary) -> list[str]:
    """What was lost or not seen; the first stands in place of a verdict where there is none."""
    notes = [str(note) for note in summary.coverage.get("notes") or ()]
    return notes if summary.verdict is not None else notes[1:]


class _Steps(NamedTuple):
    chart: Chart
    data: dict[str, Any]  # what the script reads out of it


def _steps(timeline: Timeline | None) -> _Steps | None:
    if timeline is None or not timeline.buckets:
        return None
    buckets = timeline.buckets
    data = {
        "wall": timeline.wall_ms,
        "phases": [_visible(phase) for phase in timeline.phases],
        "starts": [bucket.start_ms for bucket in buckets],
        "labels": [bucket_label(bucket) for bucket in buckets],
        "ms": [[round(ms / max(1, one.steps), 3) for ms in one.ms] for one in buckets],
    }
    return _Steps(step_chart(timeline), data)


def _resources(timeline: Timeline | None) -> list[_Resource]:
    if timeline is None or len(timeline.points) < 2:
        return []
    cpus = timeline.cpu_count
    most = "" if cpus is None else f"all {units.amount(cpus)} CPUs"
    wanted: Sequence[tuple[str, str, float | None, str, tuple[Line, ...]]] = (
        ("CPUs at work", "", cpus, most, (
            Line("the program", 0, lambda point: point.program_cores),
            Line("its other processes", 1, lambda point: point.children_cores),
        )),
        ("Memory", "B", None, "", (
            Line("the program", 0, lambda point: point.program_rss_bytes),
            Line("its other processes", 1, lambda point: point.children_rss_bytes),
        )),
        ("GPUs busy", "", 1.0, "all of the time", (
            Line("all GPUs, a mean", 0, lambda point: point.gpu_busy_share),
        )),
        ("GPU memory", "B", None, "", (
            Line("all GPUs together", 0, lambda point: point.gpu_memory_bytes),
        )),
    )  # fmt: skip
    charts = [(title, line_chart(timeline, lines, unit, limit), said)
              for title, unit, limit, said, lines in wanted]  # fmt: skip
    return [_Resource(title, chart, said) for title, chart, said in charts if chart.areas]


def _own_files(details: Details) -> frozenset[str]:
    """Files of the user, as far as the lines tell."""
    return frozenset(
        line.location.file
        for stacks in details.stacks
        for line in stacks.lines
        if line.location.file is not None
    )


def _sentence(title: str) -> str:
    return title[:1].upper() + title[1:] + ("" if title.endswith(".") else ".")


def _file(folder: str, file: str) -> str:
    return file.removeprefix(f"{folder.rstrip('/')}/") if folder else file


def _place(folder: str, location: Location) -> str:
    if location.file is None:
        return location.function or location.layer or location.op or ""
    line = f":{location.line}" if location.line is not None else ""
    return f"{_file(folder, location.file)}{line}"


_PHASE_CLASSES = {phase.value: f"p-{phase.value.replace(' ', '-')}" for phase in Phase}


def _phase_class(phase: str) -> str:
    return _PHASE_CLASSES.get(phase, "p-unexplained")


def _frame_title(folder: str, node: FlameNode, width: float) -> str:
    where = f" · {shorten(_file(folder, node.file))}:{node.line}" if node.file else ""
    share = units.percent(width)
    return f"{shorten(node.name, 120)}{where} · {units.duration(node.ms)} · {share} of this phase"


def _pct(part: float) -> str:
    """A place or a width within a drawing."""
    return f"{min(1.0, max(0.0, part)) * 100:.4g}%"
