"""`stepscope run` in front of small programs: what is the program's stays the program's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.timed

STEPSCOPE = [sys.executable, "-m", "stepscope"]
Script = Callable[..., list[str]]


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    """The command that runs a program with these lines under stepscope, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def make(text: str, *options: str) -> list[str]:
        (tmp_path / "program.py").write_text(text)
        return [*STEPSCOPE, "run", *options, "program.py"]

    return make


def run(command: list[str], text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=60, check=False
    )


def started(command: list[str]) -> subprocess.Popen[str]:
    """Waits until the program says "ready"."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def meta() -> dict[str, object]:
    (path,) = Path("runs").glob("*/meta.json")
    found: dict[str, object] = json.loads(path.read_text())
    return found


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("pass", 0),
        ("raise ValueError('no')", 1),
        ("import sys; sys.exit(3)", 3),
        ("import sys; sys.exit('the reason')", 1),
        ("import os; os._exit(77)", 77),
    ],
)
def test_the_exit_code_is_the_programs_own(script: Script, text: str, code: int) -> None:
    done = run(script(text))
    assert done.returncode == code
    assert done.stdout == ""
    assert meta()["exit_code"] == code
    if "reason" in text:
        assert "the reason\n" in done.stderr


_FAILS = """
import logging, signal, sys, traceback
import torch
from torch import nn
from torch.utils.data import DataLoader

class Fails(nn.Module):
    def forward(self, x):
        raise ValueError("in forward")

class Squares:
    def __len__(self): return 4
    def __getitem__(self, index): return 1 // index

def interrupted(): signal.raise_signal(signal.SIGINT)
def imports(): import users_module
def loads(): list(DataLoader(Squares(), num_workers=1, multiprocessing_context="spawn"))
def steps(): torch.optim.SGD([nn.Parameter(torch.ones(2))], lr=0.1).step(interrupted)

if __name__ == "__main__":
    for program in (imports, loads, steps):
        try:
            program()
        except BaseException:
            logging.exception(program.__name__)
    nn.Sequential(nn.Linear(2, 2), Fails())(torch.ones(1, 2))
"""


def test_tracebacks_are_those_of_the_bare_program(script: Script, tmp_path: Path) -> None:
    (tmp_path / "users_module.py").write_text("import torch.distributed.checkpoint\n1 / 0\n")
    (tmp_path / "program.py").write_text(_FAILS)
    bare = run([sys.executable, "program.py"])

    done = run(script(_FAILS, "--quiet"))

    assert done.stderr == bare.stderr
    assert done.stderr.count("Traceback (most recent call last)") == 5  # one of them in a worker
    assert "stepscope" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGINT])
def test_a_signal_that_ends_the_program_ends_stepscope(script: Script, number: int) -> None:
    default = "" if number == signal.SIGKILL else f"signal.signal({number}, signal.SIG_DFL);"
    done = run(script(f"import os, signal; {default} os.kill(os.getpid(), {number})"))
    assert done.returncode == -number
    assert meta()["exit_code"] == -number


def test_input_and_output_pass_through_untouched(script: Script) -> None:
    text = "import sys; sys.stdout.write(sys.stdin.read().upper()); print('told', file=sys.stderr)"
    done = run(script(text), "some\nlines\x00")
    assert done.stdout == "SOME\nLINES\x00"
    assert "told\n" in done.stderr


def test_binary_output_is_not_changed(script: Script) -> None:
    command = script("import sys; sys.stdout.buffer.write(bytes(range(256)) * 999)")
    done = subprocess.run(command, capture_output=True, timeout=60, check=True)
    assert done.stdout == bytes(range(256)) * 999


def test_the_programs_arguments_are_its_own(script: Script) -> None:
    command = script("import sys; print(sys.argv[1:])", "--quiet")
    done = run([*command, "--quiet", "-o", "x", "--", "--json", "a b", ""])
    assert done.stdout == "['--quiet', '-o', 'x', '--', '--json', 'a b', '']\n"


@pytest.mark.parametrize("closed", ["<&-", "2>&-", ">&-", "<&- >&- 2>&-"])
def test_closed_files_are_no_trouble_and_the_program_has_them_closed(
    script: Script, closed: str
) -> None:
    text = """
import os, sys
with open("open.txt", "w") as file:
    for number in range(3):
        try:
            os.fstat(number)
            if number != file.fileno():
                print(number, file=file)
        except OSError:
            pass
sys.exit(5)
"""
    command = script(text)
    shell = " ".join(command) + f" {closed}"
    done = subprocess.run(["sh", "-c", shell], capture_output=True, timeout=60, check=False)
    assert done.returncode == 5
    assert done.stdout == b""
    marks = {"<": "0", "2": "2", ">": "1"}
    still_open = {"0", "1", "2"} - {marks[word[0]] for word in closed.split()}
    assert set(Path("open.txt").read_text().split()) == still_open


@pytest.mark.parametrize(
    "command",
    [
        ["python", "program.py", "x"],
        ["-m", "program", "x"],
        ["env", "python", "program.py", "x"],
        ["./wrapper", "x"],
    ],
)
def test_every_form_of_command_runs(
    script: Script, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(sys.executable).parent
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    script("import os, sys; print(sys.argv[1:], 'STEPSCOPE_RUN' in os.environ)")
    wrapper = Path("wrapper")
    wrapper.write_text('#!/bin/sh\nexec python program.py "$@"\n')
    wrapper.chmod(0o755)
    done = run([*STEPSCOPE, "run", "--quiet", *command])
    assert (done.stdout, done.returncode) == ("['x'] True\n", 0)


HANDLES = """
import signal, sys, time
def stop(number, frame):
    print("got", number, flush=True)
    sys.exit(9)
signal.signal({number}, stop)
print("ready", flush=True)
time.sleep(30)
"""


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGQUIT, signal.SIGINT]
)
def test_a_signal_sent_to_stepscope_alone_is_passed_on(script: Script, number: int) -> None:
    process = started(script(HANDLES.format(number=int(number))))
    process.send_signal(number)
    out, _ = process.communicate(timeout=30)
    assert out == f"got {int(number)}\n"
    assert process.returncode == 9


def test_sigterm_ends_a_program_that_does_not_handle_it(script: Script) -> None:
    process = started(script("import time; print('ready', flush=True); time.sleep(30)"))
    process.terminate()
    process.communicate(timeout=30)
    assert process.returncode == -signal.SIGTERM


COUNTS = """
import signal, time
seen = []
signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
print("ready", flush=True)
end = time.monotonic() + 1.5
while time.monotonic() < end:
    time.sleep(0.05)
print(len(seen))
"""


def test_a_key_on_the_terminal_reaches_the_program_once(script: Script) -> None:
    """GIVEN a terminal WHEN Ctrl-C is typed once THEN the program meets one SIGINT, decides to go
    on, and stepscope is still there at its end."""
    import pty

    command = script(COUNTS)
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "dumb"
        os.execv(command[0], command)
    read_until(terminal, b"ready")
    os.write(terminal, b"\x03")
    said = read_until(terminal, b"1\r\n")
    assert b"1\r\n" in said
    drain(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(terminal)


def test_ctrl_c_ends_an_ordinary_program_and_leaves_a_run(script: Script) -> None:
    import pty

    command = script("import time; print('ready', flush=True); time.sleep(30)")
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "dumb"
        os.execv(command[0], command)
    read_until(terminal, b"ready")
    os.write(terminal, b"\x03")
    drain(terminal)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(terminal)
    assert status == -signal.SIGINT
    assert meta()["ended_unix"] is not None


# What a shell does for a job: a process group of its own in the foreground, and waiting for it.
SHELL = """
import os, signal, sys
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
job = os.fork()
if job == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.argv[1], sys.argv[1:])
_, status = os.waitpid(job, os.WUNTRACED)
print("stopped by", os.WSTOPSIG(status) if os.WIFSTOPPED(status) else "nothing", flush=True)
os.killpg(job, signal.SIGCONT)
_, status = os.waitpid(job, 0)
print("ended with", os.waitstatus_to_exitcode(status), flush=True)
"""


def test_ctrl_z_stops_the_job_and_a_continued_program_ends_well(script: Script) -> None:
    import pty

    command = script("import time; print('ready', flush=True); time.sleep(3); print('end')")
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm"
        os.execv(sys.executable, [sys.executable, "-c", SHELL, *command])
    make_size(terminal)
    read_until(terminal, b"no step yet")
    os.write(terminal, b"\x1a")
    said = read_until(terminal, b"stopped by")
    assert b"\x1b[r" in said  # the screen was given back before
    said += drain(terminal)
    os.waitpid(pid, 0)
    os.close(terminal)
    assert f"stopped by {int(signal.SIGTSTP)}".encode() in said
    assert b"end\r\n" in said
    assert b"ended with 0" in said


def test_a_stopped_group_goes_on_when_it_is_continued(script: Script) -> None:
    process = started(
        script("import time; print('ready', flush=True); time.sleep(1); print('end')")
    )
    os.killpg(process.pid, signal.SIGSTOP)
    time.sleep(0.2)
    os.killpg(process.pid, signal.SIGCONT)
    out, _ = process.communicate(timeout=30)
    assert (out, process.returncode) == ("end\n", 0)


def make_size(terminal: int) -> None:
    """30 rows of 90 columns."""
    import fcntl
    import struct
    import termios

    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 30, 90, 0, 0))


def read_until(terminal: int, wanted: bytes) -> bytes:
    said = b""
    while wanted not in said:
        said += os.read(terminal, 4096)
    return said


def drain(terminal: int) -> bytes:
    said = b""
    try:
        while data := os.read(terminal, 4096):
            said += data
    except OSError:  # the other end was closed
        pass
    return said


def test_a_parent_that_ignores_its_children_gets_the_exit_code(script: Script) -> None:
    command = script("import sys; sys.exit(3)")
    program = (
        "import signal, subprocess, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN);"
        "import os; os.execv(sys.argv[1], sys.argv[1:])"
    )
    assert run([sys.executable, "-c", program, *command]).returncode == 3


def test_the_program_starts_with_the_signals_as_they_were(script: Script) -> None:
    text = """
import signal
print(sorted(int(each) for each in signal.pthread_sigmask(signal.SIG_BLOCK, [])))
print([int(each) for each in signal.Signals if signal.getsignal(each) == signal.SIG_IGN])
"""
    Path("bare.py").write_text(text)
    assert run(script(text)).stdout == run([sys.executable, "bare.py"]).stdout


def test_the_status_line_is_drawn_and_taken_back(script: Script) -> None:
    import pty

    command = script("import time; print('ready', flush=True); time.sleep(2.5); print('end')")
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm"
        os.execv(command[0], command)
    make_size(terminal)
    said = drain(terminal)
    os.waitpid(pid, 0)
    os.close(terminal)
    assert b"\x1b[1;29r" in said
    assert b"stepscope  no step yet" in said
    assert said.rindex(b"\x1b[r") > said.rindex(b"\x1b[1;29r")
