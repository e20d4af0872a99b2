from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from stepscope.errors import UsageError
from stepscope.notify.command import CommandSink, make
from stepscope.notify.options import Options
from stepscope.notify.sink import SinkError
from tests.unit.notify.alerts_by_hand import context, firing

_SAVE = """
import json, os, sys
variables = {name: value for name, value in os.environ.items() if name.startswith("STEPSCOPE_")}
told = {"stdin": json.load(sys.stdin), "env": variables, "arguments": sys.argv[1:]}
with open("told.tmp", "w") as file:
    json.dump(told, file)
os.rename("told.tmp", "told.json")
"""


def made(folder: Path, *command: str, **more: Any) -> CommandSink:
    options = Options({"command": list(command), "timeout_s": 60, **more}, "command")
    return make(options, context(folder))


def test_the_alert_is_on_stdin_and_in_the_environment_and_no_shell_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STEPSCOPE_RUN", "/some/run")  # a program with this would join the run
    made(tmp_path, sys.executable, "-S", "-c", _SAVE, "$HOME; exit 1").send(firing())
    told = json.loads((tmp_path / "told.json").read_text())
    assert told["stdin"] == firing().to_dict()
    assert told["arguments"] == ["$HOME; exit 1"]
    assert told["env"] == {
        "STEPSCOPE_ALERT_KEY": "a:firing",
        "STEPSCOPE_ALERT_ID": "a",
        "STEPSCOPE_ALERT_STATE": "firing",
        "STEPSCOPE_ALERT_RULE": "slowdown",
        "STEPSCOPE_ALERT_KIND": "slowdown",
        "STEPSCOPE_ALERT_MESSAGE": firing().message,
        "STEPSCOPE_ALERT_SEVERITY": "0.900",
        "STEPSCOPE_ALERT_RUN": "r",
        "STEPSCOPE_ALERT_RUN_FOLDER": str(tmp_path),
        "STEPSCOPE_ALERT_HOST": "node-1",
        "STEPSCOPE_ALERT_RANKS": "0,3",
        "STEPSCOPE_ALERT_STEP": "12",
        "STEPSCOPE_ALERT_METRIC": "step_seconds",
        "STEPSCOPE_ALERT_VALUE": "0.13",
        "STEPSCOPE_ALERT_LIMIT": "0.1",
        "STEPSCOPE_ALERT_FILE": "train.py",
        "STEPSCOPE_ALERT_LINE": "7",
    }


def test_what_no_variable_can_hold_is_left_out_of_it(tmp_path: Path) -> None:
    made(tmp_path, "true").send(firing(metric="a\0b\udcff" * 100_000))


def test_a_command_that_fails_did_not_take_it(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match=r"^The command sh ended with exit code 3\.$"):
        made(tmp_path, "sh", "-c", "exit 3").send(firing())
    with pytest.raises(SinkError, match="signal 9"):
        made(tmp_path, "sh", "-c", "kill -9 $$").send(firing())


def test_a_command_that_reads_nothing_takes_it(tmp_path: Path) -> None:
    made(tmp_path, "true").send(firing(capture="x" * 1_000_000))


def test_a_command_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    script = f"sleep 600 & echo $! > {tmp_path}/new && mv {tmp_path}/new {tmp_path}/pid; sleep 600"
    for timeout_s in (0.3, 3, 30):  # a busy machine may not even get to the first command
        with pytest.raises(SinkError, match=f"did not end within {timeout_s} s"):
            made(tmp_path, "sh", "-c", script, timeout_s=timeout_s).send(firing())
        if (tmp_path / "pid").exists():
            break
    pid = int((tmp_path / "pid").read_text())
    until = time.monotonic() + 30
    while _is_alive(pid) and time.monotonic() < until:
        time.sleep(0.01)
    assert not _is_alive(pid)


def _is_alive(pid: int) -> bool:
    """A zombie that nobody waited for yet is none of ours."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_program_that_vanished_is_an_error_of_the_sink(tmp_path: Path) -> None:
    program = tmp_path / "tell"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    sink = made(tmp_path, str(program))
    sink.send(firing())
    program.unlink()
    with pytest.raises(SinkError, match=r"tell cannot be started \(No such file"):
        sink.send(firing())


def test_its_name_shows_no_arguments_but_tells_them_apart(tmp_path: Path) -> None:
    one, other = made(tmp_path, "/bin/sh", "s3cret"), made(tmp_path, "/bin/sh", "other")
    assert one.name.startswith("command sh #")
    assert "s3cret" not in one.name
    assert one.name != other.name
    assert one.name == made(tmp_path / "b", "/bin/sh", "s3cret").name


@pytest.mark.parametrize("command", [[], ["no-such-program-at-all"], "true", [1], ["a\0b"]])
def test_what_is_no_command_is_refused_at_the_start(tmp_path: Path, command: Any) -> None:
    with pytest.raises(UsageError, match="command of the command sink"):
        make(Options({"command": command}, "command"), context(tmp_path))


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    sink = made(tmp_path, "true")
    sink.send(firing())
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        sink.send(firing())
    assert len(list(Path("/proc/self/fd").iterdir())) == before
