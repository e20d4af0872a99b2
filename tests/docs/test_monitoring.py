"""Every block of docs/howto/monitoring.md: settings make sinks, configurations fit them, commands
run."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import time
import tomllib
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stepscope.cli.parser import parse
from stepscope.errors import MissingExtraError
from stepscope.model.metric_table import METRICS
from stepscope.model.watching import Reading
from stepscope.monitor.settings import watch_settings
from stepscope.notify.build import make_sinks
from stepscope.notify.prometheus import PrometheusPage
from stepscope.notify.sink import MetricsSink, SinkContext

pytestmark = pytest.mark.timed

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "howto" / "monitoring.md").read_text("utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PORT = "9464"  # on the page
VARIABLES = {
    "COLLECTOR_TOKEN": "c",
    "METRICS_TOKEN": "m",
    "MLFLOW_TRACKING_URI": "file:///nowhere",
    "POD_NAME": "train-x",
    "POD_NAMESPACE": "default",
    "SLURM_JOB_ID": "17",
    "SLURM_NODEID": "0",
}
WAIT_S = 60


def blocks(language: str) -> list[str]:
    return [found[2] for found in BLOCK.finditer(PAGE) if found[1] == language]


def named(language: str) -> dict[str, str]:
    """By the file name that stands in the first line."""
    found = {text.partition("\n")[0].removeprefix("# "): text for text in blocks(language)}
    assert all(name.endswith((".toml", ".yaml", ".yml")) for name in found)
    return found


TOML, YAML, SHELL = named("toml"), named("yaml"), blocks("sh")


def loaded(name: str) -> list[Any]:
    """The documents of a YAML block."""
    return list(importlib.import_module("yaml").safe_load_all(YAML[name]))


@pytest.fixture(autouse=True)
def _variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)


def here(text: str, folder: Path, port: str = "0") -> str:
    """With folders of this test and a port that is free."""
    for place in ("/shared/prometheus", "/var/lib/node_exporter/textfile"):
        text = text.replace(place, str(folder))
    return text.replace(PORT, port)


@contextlib.contextmanager
def made(text: str, folder: Path) -> Iterator[list[MetricsSink]]:
    settings = watch_settings(tomllib.loads(here(text, folder)))
    alerts, metrics = make_sinks(settings.sinks, SinkContext("a", "box", 1, folder / "run"))
    try:
        yield metrics
    finally:
        for sink in alerts:
            sink.close()
        for one in metrics:
            one.close()


def test_all_blocks_are_of_a_kind_that_is_tested_here() -> None:
    assert {found[1] for found in BLOCK.finditer(PAGE)} == {"toml", "yaml", "sh"}


@pytest.mark.parametrize("name", [name for name in TOML if name != "trackers.toml"])
def test_settings_make_sinks_that_take_readings(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with made(TOML[name], tmp_path) as sinks:
        assert sinks
        for sink in sinks:
            if not sink.name.startswith("otlp"):  # there is no such collector
                sink.update([Reading(1, "loss", 1.0)], 0.0)


def test_trackers_are_sinks_where_they_are_installed(tmp_path: Path) -> None:
    if all(importlib.util.find_spec(name) for name in ("mlflow", "wandb")):
        with made(TOML["trackers.toml"], tmp_path) as sinks:
            assert [sink.name.partition("-")[0] for sink in sinks] == ["mlflow", "wandb"]
    else:
        with (
            pytest.raises(MissingExtraError, match=r"stepscope\[(mlflow|wandb)\]"),
            made(TOML["trackers.toml"], tmp_path),
        ):
            pass


def test_extras_that_the_page_names_are_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = re.findall(r"stepscope\[(\w+)\]", PAGE)
    assert extras
    assert set(extras) <= set(project["optional-dependencies"])


def test_the_page_lists_every_metric() -> None:
    for metric in METRICS.values():
        assert re.search(
            rf"^\| `{metric.prometheus}` \|.*\| {re.escape(metric.about)} \|$", PAGE, re.MULTILINE
        )


def test_scrape_configurations_and_settings_agree(tmp_path: Path) -> None:
    (target,) = loaded("prometheus.yml")[0]["scrape_configs"][0]["static_configs"][0]["targets"]
    (sink, _) = tomllib.loads(TOML["rules.toml"])["sink"]
    assert target == f"127.0.0.1:{sink['port']}"
    (files,) = loaded("prometheus-slurm.yml")[0]["scrape_configs"][0]["file_sd_configs"]
    with made(TOML["slurm.toml"], tmp_path):
        (pattern,) = files["files"]
        (written,) = Path("/").glob(here(pattern, tmp_path).removeprefix("/"))
        assert json.loads(written.read_text())[0]["targets"][0].startswith("box:")
    assert not written.exists()


def test_rules_for_prometheus_ask_for_metrics_that_there_are() -> None:
    (group,) = loaded("alerts.yml")[0]["groups"]
    asked = re.findall(r"stepscope_\w+", " ".join(rule["expr"] for rule in group["rules"]))
    assert asked
    assert set(asked) <= {metric.prometheus for metric in METRICS.values()}


def test_the_job_of_kubernetes_runs_a_command_that_there_is_and_serves_what_is_scraped(
    tmp_path: Path,
) -> None:
    settings, job = loaded("train.yaml")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["command"][0] == "stepscope"
    assert callable(parse(container["command"][1:]))
    (mount,) = container["volumeMounts"]
    rules = container["command"][container["command"].index("--watch") + 1]
    assert [f"{mount['mountPath']}/{name}" for name in settings["data"]] == [rules]
    (text,) = settings["data"].values()
    variables = {one["name"] for one in container["env"]}
    assert set(re.findall(r"\$(\w+)", text)) == variables
    (port,) = container["ports"]
    assert str(port["containerPort"]) == PORT
    (endpoint,) = loaded("podmonitor.yaml")[0]["spec"]["podMetricsEndpoints"]
    assert endpoint["port"] == port["name"]
    (scrape,) = loaded("prometheus-kubernetes.yml")[0]["scrape_configs"]
    assert scrape["relabel_configs"][0]["regex"] == port["name"]
    with made(text, tmp_path) as (sink,):
        assert isinstance(sink, PrometheusPage)
        sink.update([Reading(1, "loss", 1.0)], 0.0)
        url = sink.address.replace("0.0.0.0", "127.0.0.1")
        asked = urllib.request.Request(url, headers={"Authorization": "Bearer m"})
        with urllib.request.urlopen(asked, timeout=WAIT_S) as answer:
            assert b'namespace="default",pod="train-x"' in answer.read()


def environment(folder: Path) -> dict[str, str]:
    """With our commands first, and an srun that runs the task on this machine."""
    programs = folder / "bin"
    programs.mkdir()
    (programs / "srun").write_text('#!/bin/sh\nexec "$@"\n')
    (programs / "srun").chmod(0o755)
    ours = Path(sys.executable).parent
    return os.environ | {"PATH": f"{programs}:{ours}:{os.environ['PATH']}"}


def shell(text: str, folder: Path, port: str = "0") -> subprocess.Popen[str]:
    """The commands of a block, as a shell would run them, but for installing."""
    lines = [line for line in here(text, folder, port).splitlines() if "pip install" not in line]
    return subprocess.Popen(
        ["bash", "-e", "-c", "\n".join(lines)],
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(running: subprocess.Popen[str]) -> str:
    printed, said = running.communicate(timeout=WAIT_S)
    assert running.returncode == 0, said
    return printed


def waits_for(name: str, text: str = "") -> str:
    """A program that runs until there is such a file, which holds that text."""
    return (
        "import pathlib, time\n"
        f"file, until = pathlib.Path({name!r}), time.monotonic() + {WAIT_S}\n"
        f"while not (file.exists() and {text!r} in file.read_text()):\n"
        "    assert time.monotonic() < until\n"
        "    time.sleep(0.05)\n"
    )


def free_port() -> str:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


def block_with(text: str) -> str:
    (found,) = (block for block in SHELL if text in block)
    return found


@pytest.mark.slow
def test_on_a_single_box_the_page_can_be_fetched_while_the_program_runs(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "rules.toml").write_text(here(TOML["rules.toml"], tmp_path, port))
    (tmp_path / "train.py").write_text(waits_for("scraped"))
    running = shell(block_with("--watch rules.toml"), tmp_path, port)
    (command,) = here(block_with("curl"), tmp_path, port).splitlines()
    until = time.monotonic() + WAIT_S
    text = ""
    while "stepscope_memory_bytes{" not in text and running.poll() is None:
        assert time.monotonic() < until, text
        done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
        text = done.stdout
        time.sleep(0.05)
    (tmp_path / "scraped").touch()
    finish(running)
    assert "stepscope_memory_bytes{" in text
    assert list(tmp_path.glob("runs/*/tensorboard/events.out.tfevents.*"))


@pytest.mark.slow
def test_in_ci_the_metrics_and_alerts_are_files_and_a_quiet_run_passes(tmp_path: Path) -> None:
    (tmp_path / "ci.toml").write_text(TOML["ci.toml"])
    (tmp_path / "train.py").write_text(waits_for("metrics.prom", "stepscope_memory_bytes{"))
    finish(shell(block_with("ci.toml"), tmp_path))
    assert json.loads((tmp_path / "alerts.json").read_text())["alerts"] == []
    assert "stepscope_memory_bytes{" in (tmp_path / "metrics.prom").read_text()


def test_in_ci_an_alert_of_high_severity_fails_the_job(tmp_path: Path) -> None:
    bad, light = {"message": "bad", "severity": 0.8}, {"message": "light", "severity": 0.3}
    (tmp_path / "alerts.json").write_text(json.dumps({"alerts": [bad, light]}))
    running = shell(block_with("ci.toml").splitlines()[-1], tmp_path)
    _, said = running.communicate(timeout=WAIT_S)
    assert (running.returncode, said) == (1, "bad\n")


@pytest.mark.slow
def test_the_job_of_slurm_tells_its_address_while_it_runs(tmp_path: Path) -> None:
    (tmp_path / "slurm.toml").write_text(here(TOML["slurm.toml"], tmp_path))
    (tmp_path / "train.py").write_text(
        "import pathlib\n"
        f"(target,) = pathlib.Path({str(tmp_path)!r}, 'stepscope').iterdir()\n"
        "pathlib.Path('seen').write_text(target.read_text())\n"
    )
    finish(shell(block_with("SBATCH"), tmp_path))
    assert json.loads((tmp_path / "seen").read_text())[0]["labels"] == {"job": "stepscope"}
    assert not list((tmp_path / "stepscope").iterdir())
    assert (tmp_path / "runs" / "17-0").is_dir()


def test_the_dashboard_is_where_the_page_says(tmp_path: Path) -> None:
    finish(shell(block_with("stepscope grafana"), tmp_path))
    assert json.loads((tmp_path / "stepscope-dashboard.json").read_text())["title"] == "stepscope"


def test_every_block_of_commands_is_tested() -> None:
    words = ("--watch rules.toml", "curl", "stepscope grafana", "ci.toml", "SBATCH")
    assert sorted(map(block_with, words)) == sorted(SHELL)
