"""A run of MLflow with a store of files, read back with MLflow. Extended: its import takes seconds,
and it is not among what `make install` brings (pip install 'stepscope[mlflow]')."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from stepscope.errors import MissingExtraError, UsageError
from stepscope.model.watching import Reading
from stepscope.notify.mlflow import MlflowSink, Tracking, make
from stepscope.notify.sink import HearsAlerts, MetricsSink, SinkError
from tests.unit.notify.exports import ALERT, RESOLVED, context, options

NOW = 1_700_000_000.0
IS_INSTALLED = importlib.util.find_spec("mlflow") is not None
needs_mlflow = [
    pytest.mark.extended,
    pytest.mark.skipif(not IS_INSTALLED, reason="MLflow is not installed"),
    pytest.mark.filterwarnings("ignore"),
]


@pytest.mark.skipif(IS_INSTALLED, reason="MLflow is installed")
def test_without_mlflow_the_extra_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingExtraError, match=r"stepscope\[mlflow\]"):
        make(options("mlflow", experiment="x"), context(tmp_path))


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "store").as_uri())
    from mlflow import MlflowClient

    return MlflowClient()


class TestWithMlflow:
    pytestmark = needs_mlflow

    def test_metrics_and_alerts_are_in_a_run_of_our_own_which_ends_with_ours(
        self, client: Any, tmp_path: Path
    ) -> None:
        sink = make(options("mlflow", experiment="watching"), context(tmp_path, team="vision"))
        assert isinstance(sink, MetricsSink)
        assert isinstance(sink, HearsAlerts)
        sink.update([Reading(1, "loss", 2.5, step=10), Reading(1, "steps_total", 12.0)], NOW)
        sink.alert(ALERT)
        sink.update([Reading(2, "phase_ratio", 0.5, "backward", rank=1)], NOW + 10)
        experiment = client.get_experiment_by_name("watching")
        (run,) = client.search_runs([experiment.experiment_id])
        assert run.info.status == "RUNNING"
        (loss,) = client.get_metric_history(run.info.run_id, "stepscope/loss")
        assert (loss.value, loss.step, loss.timestamp) == (2.5, 10, 1_700_000_000_000)
        metrics = run.data.metrics
        assert metrics["stepscope/phase_ratio.backward.rank-1"] == 0.5
        assert metrics["stepscope/alert.slowdown.slowdown"] == 1.0
        assert run.data.tags["team"] == "vision"
        assert run.data.tags["stepscope.alert.slowdown"].startswith("Steps take 40 % longer")
        sink.alert(RESOLVED)
        sink.close()
        run = client.get_run(run.info.run_id)
        assert run.info.status == "FINISHED"
        assert run.data.tags["stepscope.alert.slowdown"].startswith("over: ")

    def test_a_run_that_is_active_in_the_program_is_used_and_left_open(
        self, client: Any, tmp_path: Path
    ) -> None:
        import mlflow

        with mlflow.start_run() as run:
            sink = make(options("mlflow"), context(tmp_path))
            sink.update([Reading(1, "loss", 2.5, step=10)], NOW)
            sink.close()
            found = client.get_run(run.info.run_id)
            assert found.data.metrics == {"stepscope/loss": 2.5}
            assert found.info.status == "RUNNING"

    def test_hostile_names_are_made_harmless_and_many_metrics_are_sent_in_pieces(
        self, client: Any, tmp_path: Path
    ) -> None:
        sink = make(options("mlflow", experiment="x"), context(tmp_path))
        names = ["../../etc", "a\nb:;$", "\ud800", "..", "//", *(f"m{at}" for at in range(600))]
        sink.update([Reading(1, name, 1.0) for name in names], NOW)
        (run,) = client.search_runs([client.get_experiment_by_name("x").experiment_id])
        assert len(run.data.metrics) == 600 + 3  # three of them have nothing that can be shown
        assert all(name.startswith("stepscope/") for name in run.data.metrics)
        sink.close()

    def test_a_run_that_is_gone_is_a_trouble_without_secrets(
        self, client: Any, tmp_path: Path
    ) -> None:
        sink = make(options("mlflow", run_id="0" * 32), context(tmp_path))
        with pytest.raises(SinkError, match=r"did not take it \(MlflowException\)"):
            sink.update([Reading(1, "loss", 1.0)], NOW)

    def test_without_a_run_it_is_said_what_to_set(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("MLFLOW_RUN_ID", raising=False)
        with pytest.raises(UsageError, match="set experiment or run_id"):
            make(options("mlflow"), context(tmp_path))

    def test_nothing_is_asked_of_a_server_before_there_is_something_to_say(
        self, tmp_path: Path
    ) -> None:
        sink = MlflowSink(Tracking("", "x", "http://127.0.0.1:1"), context(tmp_path), 1.0)
        sink.close()
