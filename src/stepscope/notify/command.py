"""Alerts to a command: as JSON on its stdin, and in its environment."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stepscope.errors import UsageError
from stepscope.model.alert import Alert
from stepscope.model.delivery import json_line, notice_key
from stepscope.notify.options import Options
from stepscope.notify.secrets import short_hash
from stepscope.notify.sink import SinkContext, SinkError
from stepscope.notify.words import one_line

__all__ = ["CommandSettings", "CommandSink", "make"]

_PREFIX: Final = "STEPSCOPE_ALERT_"
_LONGEST: Final = 4096  # of a variable: the whole is on stdin


@dataclass(frozen=True, slots=True)
class CommandSettings:
    """command: the program and its arguments, as they are; there is no shell."""

    command: tuple[str, ...]
    folder: Path
    timeout_s: float = 10.0


def make(options: Options, context: SinkContext) -> CommandSink:
    command = options.texts("command")
    where = options.where("command")
    if not command or any("\0" in word for word in command):
        raise UsageError(f'{where} has to be a list: ["notify", "--urgent"].')
    if shutil.which(command[0]) is None:
        raise UsageError(f"{where}: there is no program {command[0]}.")
    timeout_s = options.number("timeout_s", 10.0, least=0.1, most=60.0)
    return CommandSink(CommandSettings(command, context.folder, timeout_s))


class CommandSink:
    """It took an alert when it ends with 0. What it prints is thrown away."""

    def __init__(self, settings: CommandSettings) -> None:
        self._settings = settings

    @property
    def name(self) -> str:
        command = self._settings.command
        return f"command {one_line(Path(command[0]).name)} #{short_hash(repr(command))}"

    def send(self, alert: Alert) -> None:
        content = json_line(alert.to_dict()).encode("ascii") + b"\n"
        code = _run(self._settings, content, self._environment(alert))
        if code:
            how = f"exit code {code}" if code > 0 else f"signal {-code}"
            raise SinkError(f"The command {self._program} ended with {how}.")

    def close(self) -> None:
        """Each of them has ended."""

    @property
    def _program(self) -> str:
        return one_line(Path(self._settings.command[0]).name)

    def _environment(self, alert: Alert) -> dict[str, str]:
        """That of this process, but what would have the command take part in the run."""
        told = {**_variables(alert), "RUN_FOLDER": str(self._settings.folder)}
        around = {k: v for k, v in os.environ.items() if not k.startswith("STEPSCOPE_")}
        return around | {f"{_PREFIX}{name}": _fit(value) for name, value in told.items()}


def _variables(alert: Alert) -> dict[str, object]:
    where = alert.finding.location
    return {
        "KEY": notice_key(alert),
        "ID": alert.id,
        "STATE": alert.state.value,
        "RULE": alert.rule,
        "KIND": alert.finding.kind,
        "MESSAGE": alert.message,
        "SEVERITY": f"{alert.severity:.3f}",
        "RUN": alert.run,
        "HOST": alert.host,
        "RANKS": ",".join(map(str, alert.ranks)),
        "STEP": alert.step,
        "METRIC": alert.metric,
        "VALUE": alert.value,
        "LIMIT": alert.limit,
        "FILE": where.file,
        "LINE": where.line,
    }


def _fit(value: object) -> str:
    text = "" if value is None else str(value).replace("\0", "")
    return text[:_LONGEST].encode("utf-8", "replace").decode("utf-8")


def _run(settings: CommandSettings, content: bytes, environment: dict[str, str]) -> int:
    program = one_line(Path(settings.command[0]).name)
    try:
        process = _start(settings.command, environment)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise SinkError(f"The command {program} cannot be started ({reason}).") from error
    try:
        process.communicate(content, timeout=settings.timeout_s)
    except subprocess.TimeoutExpired as error:
        raise SinkError(
            f"The command {program} did not end within {settings.timeout_s:g} s."
        ) from error
    finally:
        _end(process)
    return process.returncode


def _start(command: Sequence[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    # In a session of its own: Ctrl-C is not meant for it, and all of it can be ended.
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """With what it started, if it did not end by itself."""
    if process.poll() is None:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
