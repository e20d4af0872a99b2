from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import structlog

from stepscope.notify.log import Log, make
from stepscope.notify.options import Options
from stepscope.notify.sink import SinkError
from tests.unit.notify.alerts_by_hand import context, firing, resolved


def made(folder: Path, **table: str) -> Log:
    return make(Options(table, "log"), context(folder))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_an_alert_is_a_line_with_the_fields_of_ecs(tmp_path: Path) -> None:
    made(tmp_path, service="trainer").send(firing())
    (line,) = lines(tmp_path / "alerts.log")
    assert list(line)[:4] == ["@timestamp", "log.level", "message", "ecs.version"]
    assert line == {
        "@timestamp": "2023-11-14T22:13:23.500Z",
        "log.level": "error",
        "message": firing().message,
        "ecs.version": "8.11.0",
        "log.logger": "stepscope",
        "service.name": "trainer",
        "service.type": "stepscope",
        "process.pid": 4711,
        "labels": {"team": "vision"},
        "event.kind": "alert",
        "event.category": ["process"],
        "event.type": ["info"],
        "event.action": "firing",
        "event.module": "stepscope",
        "event.dataset": "stepscope.alerts",
        "event.severity": 90,
        "event.id": "a:firing",
        "event.code": "slowdown",
        "event.reason": "the median was 100 ms it is 130 ms",
        "event.start": "2023-11-14T22:13:20.000Z",
        "error.type": "slowdown",
        "error.message": "steps take 30 % longer <since> 12 & on",
        "rule.name": "slowdown",
        "rule.category": "slowdown",
        "host.name": "node-1",
        "stepscope.alert": "a",
        "stepscope.state": "firing",
        "stepscope.run": "r",
        "stepscope.rank": 0,
        "stepscope.ranks": [0, 3],
        "stepscope.step": 12,
        "stepscope.rule": "slowdown",
        "stepscope.kind": "slowdown",
        "stepscope.severity": 0.9,
        "stepscope.confidence": 0.8,
        "stepscope.metric": "step_seconds",
        "stepscope.value": 0.13,
        "stepscope.limit": 0.1,
        "stepscope.location.file": "train.py",
        "stepscope.location.line": 7,
        "stepscope.location.function": "main",
        "stepscope.recommendation": "Use workers. DataLoader(..., num_workers=4)",
    }


def test_what_is_over_is_information_and_says_how_long_it_took(tmp_path: Path) -> None:
    made(tmp_path).send(resolved())
    (line,) = lines(tmp_path / "alerts.log")
    assert (line["log.level"], line["event.action"]) == ("info", "resolved")
    assert line["event.end"] == "2023-11-14T22:14:20.000Z"
    assert line["event.duration"] == 60_000_000_000
    assert "error.type" not in line


def test_whatever_stands_in_an_alert_it_is_one_line_of_json(tmp_path: Path) -> None:
    made(tmp_path).send(firing(run='a\n"b\u2028\udcff', value=float("nan")))
    (line,) = lines(tmp_path / "alerts.log")
    assert line["stepscope.run"] == 'a\n"b\u2028\udcff'
    assert line["stepscope.value"] is None


def test_a_log_that_is_moved_removed_or_cut_off_goes_on(tmp_path: Path) -> None:
    log, path = made(tmp_path), tmp_path / "alerts.log"
    log.send(firing("a"))
    path.rename(tmp_path / "alerts.log.1")
    log.send(firing("b"))
    path.unlink()
    log.send(firing("c"))
    shutil.copy(path, tmp_path / "alerts.log.2")  # as logrotate's copytruncate does
    path.write_bytes(b"")
    log.send(firing("d"))
    found = [tmp_path / name for name in ("alerts.log.1", "alerts.log.2", "alerts.log")]
    assert [[line["stepscope.alert"] for line in lines(one)] for one in found] == [
        ["a"],
        ["c"],
        ["d"],
    ]


def test_a_log_that_cannot_be_written_did_not_take_it(tmp_path: Path) -> None:
    (tmp_path / "full").symlink_to("/dev/full")
    with pytest.raises(SinkError, match=r"The log full cannot be written \(No space left"):
        made(tmp_path, path="full").send(firing())
    with pytest.raises(SinkError, match="No such file"):
        made(tmp_path, path="no/such/folder").send(firing())


def test_stderr_can_be_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = made(tmp_path, path="stderr")
    log.send(firing())
    assert json.loads(capsys.readouterr().err)["stepscope.alert"] == "a"
    monkeypatch.setattr(sys, "stderr", None)
    with pytest.raises(SinkError):
        log.send(firing())


def test_the_users_own_configuration_of_structlog_has_no_part_in_it(tmp_path: Path) -> None:
    def refuse(*_: Any) -> Any:
        raise structlog.DropEvent

    before = structlog.get_config()
    try:
        structlog.configure(processors=[refuse])
        configured = structlog.get_config()
        structlog.contextvars.bind_contextvars(users="own")
        made(tmp_path).send(firing())
        assert structlog.get_config() == configured
    finally:
        structlog.contextvars.clear_contextvars()
        structlog.configure(**before)
        structlog.reset_defaults()
    (line,) = lines(tmp_path / "alerts.log")
    assert "users" not in line
