"""Offline runs of Weights & Biases. Extended: it starts a process of its own, and is not among what
`make install` brings (pip install 'stepscope[wandb]')."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path

import pytest

from stepscope.errors import MissingExtraError, UsageError
from stepscope.model.watching import Reading
from stepscope.notify.sink import HearsAlerts, MetricsSink
from stepscope.notify.wandb import make
from tests.unit.notify.exports import ALERT, context, options

NOW = 1_700_000_000.0
IS_INSTALLED = importlib.util.find_spec("wandb") is not None


@pytest.mark.skipif(IS_INSTALLED, reason="wandb is installed")
def test_without_wandb_the_extra_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingExtraError, match=r"stepscope\[wandb\]"):
        make(options("wandb", project="x"), context(tmp_path))


def wait_for(folder: Path, *parts: bytes) -> None:
    """Until they are in the file, which a process of theirs writes."""
    (file,) = folder.glob("wandb/offline-run-*/*.wandb")
    until = time.monotonic() + 60
    while any(part not in file.read_bytes() for part in parts):
        assert time.monotonic() < until, [part for part in parts if part not in file.read_bytes()]
        time.sleep(0.05)


@pytest.mark.extended
@pytest.mark.skipif(not IS_INSTALLED, reason="wandb is not installed")
@pytest.mark.filterwarnings("ignore")
class TestWithWandb:
    def test_metrics_and_alerts_are_in_a_run_of_our_own(self, tmp_path: Path) -> None:
        sink = make(options("wandb", project="watching", mode="offline"), context(tmp_path))
        assert isinstance(sink, MetricsSink)
        assert isinstance(sink, HearsAlerts)
        sink.update([Reading(1, "loss", 2.5, step=10)], NOW)
        sink.alert(ALERT)
        sink.update([Reading(2, "phase_ratio", 0.5, "backward")], NOW)
        sink.close()
        wait_for(
            tmp_path,
            b"stepscope/loss",
            b"stepscope/phase_ratio/backward",
            b"stepscope/alert/slowdown/slowdown",
            b"Steps take 40 % longer at train.py:12",
            b"ERROR",
        )

    def test_the_steps_of_a_run_of_the_program_are_its_own(self, tmp_path: Path) -> None:
        import wandb

        settings = wandb.Settings(silent=True, console="off")
        run = wandb.init(project="mine", mode="offline", dir=str(tmp_path), settings=settings)
        sink = make(options("wandb"), context(tmp_path))
        run.log({"mine": 1.0})
        sink.update([Reading(1, "loss", 2.5, step=10)], NOW)
        sink.alert(ALERT)
        run.log({"mine": 2.0})
        assert run.step == 2
        sink.close()
        run.log({"mine": 3.0})  # it is still open
        run.finish()
        wait_for(tmp_path, b"stepscope/loss")

    def test_without_a_key_it_is_refused_rather_than_asked_for_at_the_terminal(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("WANDB_API_KEY", raising=False)
        monkeypatch.setenv("NETRC", str(tmp_path / "none"))
        with pytest.raises(UsageError, match="WANDB_API_KEY"):
            make(options("wandb", project="x", mode="online"), context(tmp_path))
        (tmp_path / "none").write_text("machine api.wandb.ai login user password key\n")
        make(options("wandb", project="x", mode="online"), context(tmp_path))

    def test_without_a_run_it_is_said_what_to_set(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="set project"):
            make(options("wandb"), context(tmp_path))
