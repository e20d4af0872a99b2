"""Metrics and alerts in a run of Weights & Biases: the program's, or one of our own."""

from __future__ import annotations

import importlib.util
import netrc
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from stepscope.errors import MissingExtraError, UsageError
from stepscope.model.alert import Alert
from stepscope.model.watching import Reading
from stepscope.notify.levels import Level, level_of
from stepscope.notify.options import Options
from stepscope.notify.secrets import short_hash
from stepscope.notify.series import AlertMarks, Newest, Steps, path_of
from stepscope.notify.sink import SinkContext, SinkError
from stepscope.notify.words import headline, one_line, paragraphs

__all__ = ["Project", "WandbSink", "make"]

_LONGEST_TITLE: Final = 63
_LEVELS: Final = {Level.INFO: "INFO", Level.WARNING: "WARN", Level.ERROR: "ERROR"}


@dataclass(frozen=True, slots=True)
class Project:
    """Where a run of our own goes. mode: "offline" writes it to the run folder for `wandb sync`."""

    project: str
    entity: str = ""
    mode: str = "online"


def make(options: Options, context: SinkContext) -> WandbSink:
    """project, entity, mode: see Project. Without a project, the run is the one which is active in
    this process."""
    if importlib.util.find_spec("wandb") is None:
        raise MissingExtraError("Weights & Biases", "wandb")
    project, entity = options.text("project", ""), options.text("entity", "")
    mode = options.choice("mode", os.environ.get("WANDB_MODE", "online"), ("online", "offline"))
    interval_s = options.number("interval_s", 10.0, least=0.1)
    options.done()
    if project:
        if mode == "online" and not _has_key():
            raise UsageError(
                "Weights & Biases has no key here, and would ask for one in the middle of a run:"
                ' set WANDB_API_KEY, use wandb login, or set mode = "offline".'
            )
        return WandbSink(Project(project, entity, mode), context, interval_s)
    run = getattr(sys.modules.get("wandb"), "run", None)
    if run is None:
        raise UsageError(
            "No run of Weights & Biases is active in this process: set project of the wandb sink."
        )
    return WandbSink(run, context, interval_s)


class WandbSink:
    """A MetricsSink that marks alerts too, as alerts of theirs.

    into: a run of the program's, whose steps are not touched: what we know is written with the next
    row that the program logs. Or where to make our own, when there is something to say.
    """

    def __init__(self, into: Any, context: SinkContext, interval_s: float) -> None:
        self._project = into if isinstance(into, Project) else None
        self._run = None if self._project else into
        of = f"{self._project.entity}/{self._project.project}" if self._project else ""
        self.name = f"wandb-{short_hash(of)}"
        self.interval_s = interval_s
        self._context = context
        self._newest, self._steps, self._marks = Newest(), Steps(), AlertMarks()
        self._marked: list[Reading] = []

    def update(self, readings: Sequence[Reading], now_unix: float) -> None:
        kept = self._newest.update([*self._marked, *readings])
        self._steps.update(kept)
        values: dict[str, float] = {path_of(one): one.value for one in kept}
        if self._project:
            values["stepscope/step"] = self._steps.newest
        self._call("log", values, commit=self._project is not None)
        self._marked.clear()

    def alert(self, alert: Alert) -> None:
        self._marked += self._marks.told(alert)
        title, text = one_line(alert.message)[:_LONGEST_TITLE], "\n".join(paragraphs(alert))
        level = _LEVELS[level_of(alert)]
        # Those that come quickly one after the other were let through on purpose.
        self._call("alert", title, f"{headline(alert)}\n{text}", level, 0.001)

    def close(self) -> None:
        """Ends the run if it is ours."""
        if self._project and self._run is not None:
            self._call("finish")

    def _call(self, method: str, *arguments: Any, **named: Any) -> None:
        try:
            if self._run is None:
                self._run = _begin(self._project, self._context)
            getattr(self._run, method)(*arguments, **named)
        except Exception as error:
            raise SinkError(
                f"Weights & Biases did not take it ({type(error).__name__})."
            ) from error


def _begin(project: Project | None, context: SinkContext) -> Any:
    """A run beside those of the program, if there are any, that leaves the terminal alone."""
    import wandb

    assert project is not None
    settings = wandb.Settings(silent=True, console="off", x_disable_stats=True)
    run = wandb.init(
        project=project.project,
        entity=project.entity or None,
        mode=project.mode,
        name=context.run,
        dir=str(context.folder),
        config={"stepscope": {"run": context.run, "host": context.host, **context.labels}},
        reinit="create_new",
        settings=settings,
    )
    run.define_metric("stepscope/*", step_metric="stepscope/step")
    return run


def _has_key() -> bool:
    if os.environ.get("WANDB_API_KEY"):
        return True
    host = urlsplit(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname or ""
    try:
        return netrc.netrc(os.environ.get("NETRC")).authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False
