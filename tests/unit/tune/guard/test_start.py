"""The process that restricts itself and becomes the program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stepscope.tune.guard import landlock, start
from stepscope.tune.guard.landlock import available

needs_landlock = pytest.mark.skipif(not available(), reason="this kernel has no Landlock")
AS_FILE = [sys.executable, "-I", "-S", start.__file__]
AS_MODULE = [sys.executable, "-m", "stepscope.tune.guard.start"]


@needs_landlock
@pytest.mark.parametrize("way", [AS_FILE, AS_MODULE], ids=["file", "module"])
def test_it_becomes_the_program_in_the_same_process(way: list[str], tmp_path: Path) -> None:
    program = 'echo $$ > "$1/inside"; echo x > "$2/outside"; echo "$VALUE"'
    folders = [str(tmp_path / "inside"), str(tmp_path)]
    (tmp_path / "inside").mkdir()
    command = [*way, "--allow", folders[0], "--", "sh", "-c", program, "sh", *folders]
    environment = {"VALUE": "kept", "PATH": os.environ["PATH"]}
    with subprocess.Popen(command, stdout=-1, stderr=-1, env=environment, text=True) as process:
        out, error = process.communicate()
    assert out == "kept\n"
    assert "denied" in error
    assert int((tmp_path / "inside" / "inside").read_text()) == process.pid
    assert not (tmp_path / "outside").exists()


@needs_landlock
def test_environment_and_signals_are_those_of_a_plain_start(tmp_path: Path) -> None:
    program = "cat /proc/self/environ | tr '\\0' '\\n' | sort; grep Sig /proc/self/status"
    environment = {"PATH": os.environ["PATH"], "LANG": "C", "EMPTY": ""}

    def told(prefix: list[str]) -> str:
        old = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        try:
            command = [*prefix, "sh", "-c", program]
            done = subprocess.run(
                command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, old)
        return done.stdout

    assert told([*AS_FILE, "--"]) == told([])


def test_a_kernel_without_landlock_stops_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(landlock, "_abi", lambda: 0)
    assert start.main(["--allow", "/none", "--", "true"]) == 126
    told = capsys.readouterr().err
    assert "this kernel has no Landlock" in told
    assert told.count("\n") == 1


@needs_landlock
def test_a_missing_program_is_told() -> None:
    command = [*AS_FILE, "--", "no-such-program"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 127
    assert done.stderr == "stepscope: there is no program no-such-program\n"


@pytest.mark.parametrize("words", [[], ["--"], ["--allow", "--", "true"], ["true"]])
def test_a_wrong_command_line_restricts_nothing(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(landlock, "restrict", lambda _: pytest.fail("restricted"))
    assert start.main(words) == 126
    assert "usage" in capsys.readouterr().err


@needs_landlock
def test_it_ends_with_whoever_started_it() -> None:
    """A launcher that is killed outright can end nobody."""
    child = [
        *AS_FILE,
        "--",
        sys.executable,
        "-c",
        "import time; print('up', flush=True); time.sleep(600)",
    ]
    code = f"""
import os, subprocess
child = subprocess.Popen({child!r}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
os.kill(os.getpid(), 9)
"""
    # The pipe ends when the last process that holds it is gone: the program holds stderr too.
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert not Path(f"/proc/{int(done.stdout)}/exe").exists()
