"""Metrics and alerts in a run of MLflow: the program's, or one of our own."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from stepscope.errors import MissingExtraError, UsageError
from stepscope.model.alert import Alert
from stepscope.model.watching import Reading
from stepscope.notify.options import Options
from stepscope.notify.secrets import resolve, short_hash
from stepscope.notify.series import AlertMarks, Newest, Steps, clean, path_of
from stepscope.notify.sink import SinkContext, SinkError
from stepscope.notify.words import headline

__all__ = ["MlflowSink", "Tracking", "make"]

_MOST_AT_ONCE: Final = 500  # metrics in a request, of which MLflow takes 1,000
_LONGEST_TAG: Final = 4000
_NOT_ALLOWED: Final = re.compile(r"[^a-zA-Z0-9_\-. ]")


@dataclass(frozen=True, slots=True)
class Tracking:
    """run_id: the run to add to; "": a new one, in `experiment`. uri: "": as MLflow is set up."""

    run_id: str = ""
    experiment: str = ""
    uri: str = ""


def make(options: Options, context: SinkContext) -> MlflowSink:
    """run_id, experiment and tracking_uri: see Tracking. Without the first two, the run is that of
    MLFLOW_RUN_ID, or the one which is active in this process."""
    if importlib.util.find_spec("mlflow") is None:
        raise MissingExtraError("MLflow", "mlflow")
    uri = options.secret("tracking_uri", "")
    experiment = options.text("experiment", "")
    run_id = resolve(options.text("run_id", ""), options.where("run_id"))
    interval_s = options.number("interval_s", 10.0, least=0.1)
    options.done()
    if not experiment:
        run_id = run_id or os.environ.get("MLFLOW_RUN_ID", "") or _active_run_id()
        if not run_id:
            raise UsageError(
                "No run of MLflow is active: set experiment or run_id of the mlflow sink, or the"
                " environment variable MLFLOW_RUN_ID."
            )
    return MlflowSink(Tracking(run_id, experiment, uri), context, interval_s)


class MlflowSink:
    """A MetricsSink that marks alerts too, as tags. MLflow is imported when there is something to
    say: that takes seconds."""

    def __init__(self, tracking: Tracking, context: SinkContext, interval_s: float) -> None:
        self.name = f"mlflow-{short_hash(tracking.experiment or tracking.run_id)}"
        self.interval_s = interval_s
        self._tracking, self._context = tracking, context
        self._newest, self._steps, self._marks = Newest(), Steps(), AlertMarks()
        self._marked: list[Reading] = []
        self._client: Any = None
        self._run_id = tracking.run_id

    def update(self, readings: Sequence[Reading], now_unix: float) -> None:
        kept = self._newest.update([*self._marked, *readings])
        self._steps.update(kept)
        self._begin()
        from mlflow.entities import Metric

        now_ms = int(now_unix * 1000)
        metrics = [Metric(_key(one), one.value, now_ms, self._steps.of(one)) for one in kept]
        for at in range(0, len(metrics), _MOST_AT_ONCE):
            self._call("log_batch", self._run_id, metrics=metrics[at : at + _MOST_AT_ONCE])
        self._marked.clear()

    def alert(self, alert: Alert) -> None:
        self._marked += self._marks.told(alert)
        self._begin()
        text = clean(headline(alert), _LONGEST_TAG)
        self._call("set_tag", self._run_id, f"stepscope.alert.{_word(alert.rule)}", text)

    def close(self) -> None:
        """Ends the run if it is ours."""
        if self._client is not None and not self._tracking.run_id:
            self._call("set_terminated", self._run_id)

    def _begin(self) -> None:
        if self._client is None:
            from mlflow import MlflowClient

            try:
                self._client = MlflowClient(self._tracking.uri or None)
            except Exception as error:
                raise _not_taken(error) from error
        if not self._run_id:
            experiment = self._call("get_experiment_by_name", self._tracking.experiment)
            id = (
                experiment.experiment_id
                if experiment is not None
                else self._call("create_experiment", self._tracking.experiment)
            )
            tags = {"stepscope.run": self._context.run, **self._context.labels}
            run = self._call("create_run", id, run_name=self._context.run, tags=tags)
            self._run_id = run.info.run_id

    def _call(self, method: str, *arguments: Any, **named: Any) -> Any:
        try:
            return getattr(self._client, method)(*arguments, **named)
        except Exception as error:
            raise _not_taken(error) from error


def _not_taken(error: Exception) -> SinkError:
    """Only its kind: the text may show the address of the server, with a password."""
    return SinkError(f"MLflow did not take it ({type(error).__name__}).")


def _active_run_id() -> str:
    """In this process, by the program that it is."""
    module = sys.modules.get("mlflow")
    run = module.active_run() if module is not None else None
    return str(run.info.run_id) if run is not None else ""


def _key(reading: Reading) -> str:
    """With one stroke only: a store of files would take a name that another begins with for both a
    file and a folder."""
    return f"stepscope/{_word(path_of(reading).removeprefix('stepscope/').replace('/', '.'))}"


def _word(text: str) -> str:
    """What MLflow takes for a part of a name, and is no way out of a folder."""
    word = _NOT_ALLOWED.sub("_", text)
    return word if word.strip(". ") else "_"
