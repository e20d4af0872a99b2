"""A real training under `run --watch`: known troubles are told, each once, to everybody."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from stepscope.model.alert import Alert
from stepscope.model.metric_table import METRICS
from stepscope.store.alerts import alerts_of
from tests.integration.receivers import Collector, Receiver

pytestmark = pytest.mark.timed

SCRIPT = Path(__file__).parent / "scripts" / "troubled.py"
RULES = """
[watch]
hold = "1s"
resolve = "2s"

[rules.stall]
after = 10
least = "3s"

[rules.slowdown]
over = "80%"

[rules.memory]
least = "5s"

[rules.throughput]
enabled = false

[rules.anomaly]
enabled = false

"""


class Watched(NamedTuple):
    """What a run left behind."""

    exit_code: int
    stdout: str
    stderr: str
    folder: Path
    alerts: list[Alert]
    page: str  # of Prometheus, the last one


def line_of(word: str) -> int:
    """Where it happens, in the script."""
    lines = SCRIPT.read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1) if line.endswith(f"# {word}"))


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def watched(folder: Path, rules: str, words: list[str], port: int = 0) -> Watched:
    """Runs the script; `port`: where Prometheus is scraped meanwhile."""
    (folder / "rules.toml").write_text(rules)
    command = [sys.executable, "-m", "stepscope", "run", "--watch", "rules.toml"]
    command += ["--level", "detailed", "--memory", "--name", "watched", str(SCRIPT), *words]
    page = ""
    out, err = folder / "out.txt", folder / "err.txt"
    with (
        out.open("w") as stdout,
        err.open("w") as stderr,
        subprocess.Popen(command, cwd=folder, stdout=stdout, stderr=stderr) as process,
    ):
        while process.poll() is None:
            if port:
                page = scrape(port) or page
            time.sleep(0.25)
    run = folder / "runs" / "watched"
    alerts = [record.alert for record in alerts_of(run)]
    return Watched(process.returncode, out.read_text(), err.read_text(), run, alerts, page)


def scrape(port: int) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""  # not there yet, or not any more


@pytest.mark.extended
def test_a_stall_is_told_once_with_its_line_and_is_over_when_it_ends(tmp_path: Path) -> None:
    with Receiver() as webhook:
        rules = RULES + f'[[sink]]\ntype = "webhook"\nurl = "{webhook.url}/hook"\n'
        found = watched(tmp_path, rules, ["steps=200", "stall=120"])
    assert found.exit_code == 0, found.stderr
    stalls = [alert for alert in found.alerts if alert.rule == "stall"]
    assert len(stalls) == 1, found.stderr
    assert stalls[0].finding.kind == "stall"
    assert stalls[0].finding.location.line == line_of("STALL")
    assert not stalls[0].is_firing
    told = [request.json() for request in webhook.received]
    states = [one["state"] for one in told if one["rule"] == "stall"]
    assert states == ["firing", "resolved"]
    assert f"troubled.py:{line_of('STALL')}" in found.stderr


@pytest.mark.slow
def test_rules_that_cannot_be_are_told_before_the_program_starts(tmp_path: Path) -> None:
    for rules, says in (
        ("[rules.stall]\nafter = 'x'\n", "after"),
        ('[[sink]]\ntype = "pigeon"\n', "pigeon"),
    ):
        found = watched(tmp_path, rules, ["steps=1"])
        assert found.exit_code == 2
        assert says in found.stderr
        assert found.stdout == ""
        assert not found.folder.exists()


# ---- all of it at once: `make test-extended` ----


class Everything(NamedTuple):
    run: Watched
    webhook: Receiver
    collector: Collector


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Everything]:
    folder = tmp_path_factory.mktemp("everything")
    port = free_port()
    with Receiver() as webhook, Collector() as collector:
        assert isinstance(collector, Collector)
        rules = RULES + "\n".join(
            f"[[sink]]\n{text}"
            for text in (
                f'type = "webhook"\nurl = "{webhook.url}/hook"\n',
                f'type = "prometheus"\nport = {port}\ninterval_s = 0.5\n',
                f'type = "otlp"\nendpoint = "{collector.url}"\ninterval_s = 1\n',
                'type = "tensorboard"\nfolder = "board"\ninterval_s = 1\n',
                'type = "log"\npath = "alerts.log"\n',
            )
        )
        words = ["steps=2200", "leak=300:1100", "stall=1350", "slow=1600:1850"]
        yield Everything(watched(folder, rules, words, port), webhook, collector)


@pytest.mark.extended
@pytest.mark.timeout(600)
def test_exactly_the_troubles_that_happened_are_told(everything: Everything) -> None:
    run = everything.run
    assert run.exit_code == 0, run.stderr
    assert json.loads(run.stdout)["kept_bytes"] == 800 << 22  # the program's own result
    told = sorted((alert.rule, alert.finding.kind) for alert in run.alerts)
    assert told == [("memory", "leak"), ("slowdown", "slowdown"), ("stall", "stall")], run.stderr
    lines = {alert.rule: alert.finding.location.line for alert in run.alerts}
    assert lines == {
        "memory": line_of("LEAK"),
        "slowdown": line_of("SLOW"),
        "stall": line_of("STALL"),
    }
    steps = {alert.rule: alert.step or 0 for alert in run.alerts}
    assert 300 <= steps["memory"] <= 1100
    assert steps["stall"] in (1349, 1350)
    assert 1590 <= steps["slowdown"] <= 1700
    assert not any(alert.is_firing for alert in run.alerts)
    assert all(alert.finding.recommendation for alert in run.alerts)


@pytest.mark.extended
def test_the_webhook_hears_of_each_beginning_and_each_end_once(everything: Everything) -> None:
    told = [request.json() for request in everything.webhook.received]
    notices = [(one["id"], one["state"]) for one in told]
    assert len(notices) == len(set(notices)) == 2 * len(everything.run.alerts)


@pytest.mark.extended
def test_prometheus_page_is_what_its_own_client_reads(everything: Everything) -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    families = {one.name: one for one in parser.text_string_to_metric_families(everything.run.page)}
    steps = families["stepscope_steps"].samples[0]
    assert steps.labels["run"] == "watched"
    assert 0 < steps.value <= 2200
    assert "stepscope_memory_bytes" in families
    fired = {sample.labels["rule"] for sample in families["stepscope_alert"].samples}
    assert fired == {"memory", "slowdown", "stall"}


@pytest.mark.extended
def test_the_collector_has_metrics_and_alerts(everything: Everything) -> None:
    names = everything.collector.metric_names()
    wanted = ("steps_total", "memory_bytes", "step_seconds")
    assert {METRICS[name].otel for name in wanted} <= names
    bodies = everything.collector.log_bodies()
    assert len(bodies) == 2 * len(everything.run.alerts)


@pytest.mark.extended
def test_tensorboard_reads_its_event_file(everything: Everything) -> None:
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    around = everything.run.folder.parent.parent
    folder = next(path.parent for path in around.rglob("events.out.tfevents*"))
    read = accumulators.EventAccumulator(str(folder))
    read.Reload()
    scalars = read.Tags()["scalars"]
    assert any("step_seconds" in tag for tag in scalars), scalars
    assert len(read.Scalars(next(tag for tag in scalars if "step_seconds" in tag))) > 10


ECS = {
    "@timestamp": str,
    "ecs.version": str,
    "log.level": str,
    "message": str,
    "event.kind": str,
    "event.id": str,
    "event.severity": int,
    "service.name": str,
    "host.name": str,
    "process.pid": int,
}


@pytest.mark.extended
def test_the_log_has_the_fields_of_ecs(everything: Everything) -> None:
    lines = (everything.run.folder / "alerts.log").read_text().splitlines()
    assert len(lines) == 2 * len(everything.run.alerts)
    for line in lines:
        entry: dict[str, Any] = json.loads(line)
        for field, kind in ECS.items():
            value = entry.get(field, _nested(entry, field))
            assert isinstance(value, kind), (field, value)
        assert _nested(entry, "event.kind") == "alert"


def _nested(entry: dict[str, Any], field: str) -> Any:
    if field in entry:
        return entry[field]
    at: Any = entry
    for part in field.split("."):
        at = at.get(part) if isinstance(at, dict) else None
    return at
