"""A summary as text for a terminal, a pipe or a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from stepscope.model.finding import Finding, Location
from stepscope.model.summary import PhaseShare, RankSummary, Summary
from stepscope.report.checkpointing import checkpointing_parts
from stepscope.report.figures import speedup
from stepscope.report.glyphs import Glyphs, glyphs_for
from stepscope.report.units import all_steps_text, duration, factor, percent, warm_up_text

if TYPE_CHECKING:
    from stepscope.model.checkpoint_details import Checkpointing
    from stepscope.model.metrics import PerformanceMetrics

__all__ = ["render"]

_FINDINGS = 4
_BAR = 30
_RANKS = 8
_OPERATIONS = 20
_INDENT = 4
_COLOURS = {
    "input wait": "yellow",
    "transfer": "magenta",
    "forward": "green",
    "backward": "green",
    "optimizer": "green",
    "evaluation": "cyan",
    "checkpoint save": "cyan",
    "gc": "red",
    "python between": "red",
}


def render(summary: Summary, console: Console, checkpointing: Checkpointing | None = None) -> None:
    """Print a summary: verdict, breakdown, findings, memory, own cost, what was not seen."""
    view = _View(summary, glyphs_for(console.encoding), checkpointing)
    for part in view.parts():
        console.print(part)


class _View:
    def __init__(
        self, summary: Summary, glyphs: Glyphs, checkpointing: Checkpointing | None
    ) -> None:
        self._summary = summary
        self._checkpointing = checkpointing
        self._glyphs = glyphs

    def parts(self) -> Iterator[RenderableType]:
        yield self._heading()
        yield Text()
        yield self._verdict()
        if self._summary.breakdown:
            yield Text()
            yield self._breakdown()
        if len(self._summary.ranks) > 1:
            yield Text()
            yield self._ranks()
        for number, finding in enumerate(self._summary.findings, 1):
            if number <= _FINDINGS or finding.is_of_memory:
                yield Text()
                yield from self._finding(number, finding)
        if self._checkpointing is not None:
            yield Text()
            yield from checkpointing_parts(self._checkpointing, self._glyphs)
        if self._summary.operations:
            yield Text()
            yield self._operations()
        yield Text()
        yield self._facts()

    def _text(self, *parts: str | tuple[str, str]) -> Text:
        """Pieces of text, styled where they come with a style; never read as markup."""
        made = Text()
        for part in parts:
            text, style = (part, "") if isinstance(part, str) else part
            made.append(self._glyphs.text(text), style)
        return made

    def _indented(self, text: Text, by: int = _INDENT) -> Padding:
        return Padding(text, (0, 0, 0, by), expand=False)

    def _heading(self) -> Text:
        name = str(self._summary.run.get("name") or "")
        steps = self._summary.steps
        figures = [f"stepscope · {name}" if name else "stepscope"]
        if steps.count:
            figures.append(f"{all_steps_text(steps)} in {duration(self._summary.wall_ms)}")
        if steps.per_second is not None:
            figures.append(f"{steps.per_second:.3g} steps/s")
        return self._text((" · ".join(figures), "dim"))

    def _verdict(self) -> Text:
        verdict = self._summary.verdict
        if verdict is None:
            why = self._summary.coverage.get("notes") or ["No loop was found."]
            return self._text(("No verdict. ", "bold yellow"), str(why[0]))
        colour = "green" if verdict.kind == "compute" else "yellow"
        return self._text((_sentence(verdict.title), f"bold {colour}"))

    def _breakdown(self) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
        for title, justify in (("phase", "left"), ("ms/step", "right"), ("share", "right")):
            table.add_column(title, justify=justify, header_style="dim", no_wrap=True)  # type: ignore[arg-type]
        table.add_column("", no_wrap=True)
        steps = self._summary.steps.count
        largest = max(part.share for part in self._summary.breakdown)
        for part in self._summary.breakdown:
            if part.ms > 0:
                table.add_row(*self._row(part, steps, largest))
        total = self._text((f"{self._summary.wall_ms / steps:,.2f}" if steps else "", "dim"))
        table.add_row(self._text(("all", "dim")), total, self._text(("100 %", "dim")), Text())
        return table

    def _row(self, part: PhaseShare, steps: int, largest: float) -> tuple[Text, Text, Text, Text]:
        colour = _COLOURS.get(part.phase, "")
        width = _BAR if largest > 0 else 0
        return (
            self._text((part.phase, colour)),
            self._text(f"{part.ms / steps:,.2f}" if steps else ""),
            self._text(f"{part.share * 100:.1f} %"),
            self._text((self._glyphs.bar(part.share, width), colour)),
        )

    def _ranks(self) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
        for title in ("rank", "steps", "median step", "mostly"):
            table.add_column(title, header_style="dim", no_wrap=True)
        shown = self._summary.ranks[:_RANKS]
        for rank in shown:
            table.add_row(*(self._text(cell) for cell in _rank_cells(rank)))
        more = len(self._summary.ranks) - len(shown)
        if more:
            table.add_row(self._text("…"), self._text(""), self._text(f"and {more} more"))
        return table

    def _operations(self) -> Table:
        """The blocks that the program named itself."""
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
        titles = ("operation", "runs", "total", "each", "CPU", "peak RAM")
        for title in titles:
            justify = "left" if title == "operation" else "right"
            table.add_column(title, justify=justify, header_style="dim", no_wrap=True)  # type: ignore[arg-type]
        shown = self._summary.operations[:_OPERATIONS]
        for metrics in shown:
            table.add_row(*(self._text(cell) for cell in _operation_cells(metrics)))
        more = len(self._summary.operations) - len(shown)
        if more:
            table.add_row(self._text(f"… and {more:,} more"))
        return table

    def _finding(self, number: int, finding: Finding) -> Iterator[RenderableType]:
        facts = [f"{percent(finding.share)} of the {'memory' if finding.is_of_memory else 'time'}"]
        if finding.kind != "compute" and finding.max_speedup is not None:
            facts.append(f"up to {factor(finding.max_speedup)} faster without it")
        facts.append(f"confidence {int(finding.confidence * 100)} %")  # never rounded up
        yield self._text((f"{number}. {finding.kind}", "bold"), f"  {' · '.join(facts)}")
        if finding.kind == "compute" and number > 1:  # the rest of the time, nothing to fix
            yield self._indented(self._text(*finding.evidence[:1]))
            return
        for sentence in finding.evidence:
            yield self._indented(self._text(sentence))
        place = _place(finding.location)
        if place:
            yield self._indented(self._text(("at ", "dim"), (place, "cyan")))
        yield from self._advice(finding)
        for sentence in finding.missing:
            yield self._indented(self._text((f"Not known: {sentence}", "dim")))

    def _advice(self, finding: Finding) -> Iterator[RenderableType]:
        advice = finding.recommendation
        if advice is None:
            return
        yield self._indented(self._text(("→ ", "bold green"), (f"{advice.title}:", "green")))
        yield self._indented(self._text(advice.action), _INDENT + 2)
        if advice.expected_speedup is not None:
            yield self._indented(self._text((speedup(advice), "green")), _INDENT + 2)
        if advice.risk:
            yield self._indented(self._text((f"Caveat: {advice.risk}", "dim")), _INDENT + 2)

    def _facts(self) -> Table:
        """Warm-up, memory, own cost, and what was lost or not seen."""
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        steps = self._summary.steps
        warm_up = warm_up_text(steps.warm_up, steps.warm_up_ms, self._summary.wall_ms)
        for title, text in (
            ("warm-up", warm_up if steps.warm_up else ""),
            ("memory", self._summary.memory.get("text")),
            ("stepscope cost", self._summary.overhead.get("text")),
        ):
            if text:
                table.add_row(self._text((title, "dim")), self._text(str(text)))
        notes = list(self._summary.coverage.get("notes") or [])
        for note in notes if self._summary.verdict is not None else notes[1:]:
            table.add_row(self._text(("note", "yellow")), self._text(str(note)))
        return table


def _sentence(title: str) -> str:
    return title[:1].upper() + title[1:] + "."


def _rank_cells(rank: RankSummary) -> tuple[str, str, str, str]:
    main = max(rank.shares, key=lambda phase: rank.shares[phase])
    median = "" if rank.median_ms is None else duration(rank.median_ms)
    return str(rank.rank), f"{rank.steps:,}", median, f"{main} {percent(rank.shares[main])}"


def _operation_cells(metrics: PerformanceMetrics) -> tuple[str, ...]:
    calls, wall_s, cpu_s = metrics.calls or 0, metrics.execution_time, metrics.cpu_time
    failed = f" ({metrics.failed_calls:,} failed)" if metrics.failed_calls else ""
    return (
        metrics.operation,
        f"{calls:,}{failed}",
        "" if wall_s is None else duration(wall_s * 1000),
        "" if wall_s is None or not calls else duration(wall_s * 1000 / calls),
        "" if cpu_s is None else duration(cpu_s * 1000),
        "" if metrics.peak_ram_mb is None else f"{metrics.peak_ram_mb * 2**20 / 1e6:,.1f} MB",
    )


def _place(location: Location) -> str:
    if location.file is None:
        return location.function or ""
    line = f":{location.line}" if location.line is not None else ""
    return f"{location.file}{line}" + (f" in {location.function}" if location.function else "")
