"""`stepscope watch` in a real terminal, driven by its keys. The run is made up: nobody trains."""

from __future__ import annotations

import io
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from stepscope.store.live import write_live
from stepscope.store.rundir import write_meta
from stepscope.store.summary import write_summary
from tests.unit.report.made_live import made_finding, made_view
from tests.unit.report.made_summary import input_bound

pytestmark = [
    pytest.mark.skipif(shutil.which("tmux") is None, reason="there is no tmux"),
    pytest.mark.timed,
]

PATIENCE_S = 60.0
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {
    "PS1": "$ ",
    "LC_ALL": "C.UTF-8",
    "PYTHONPATH": os.pathsep.join(sys.path),
}
VERDICT = "Training waits for its data 58 % of the time."


class Screen:
    """A tmux server of its own, with one window in which a shell runs."""

    def __init__(self, folder: Path) -> None:
        self._name = f"stepscope-test-{os.getpid()}"
        self._folder = folder
        size, where = ("-x", "80", "-y", "24"), ("-c", str(folder))
        self._tmux("-u", "-f", "/dev/null", "new-session", "-d", *size, *where, "sh")

    def close(self) -> None:
        self._tmux("kill-server")

    def watch(self, run: Path, before: str = "") -> None:
        """Starts it; afterwards the shell says how it left, and what it left the terminal like."""
        command = f"{shlex.quote(sys.executable)} -m stepscope watch {shlex.quote(str(run))}"
        script = f"echo $$ > pid; {before} exec {command}"
        line = f"clear; stty -g > before; sh -c {shlex.quote(script)}; echo left with $?;"
        self.type(f"{line} stty -g | cmp - before && echo clean", "Enter")

    def type(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def signal(self, number: signal.Signals) -> None:
        os.kill(int((self._folder / "pid").read_text()), number)

    def resize(self, columns: int, rows: int) -> None:
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def rows(self) -> list[str]:
        return [row.rstrip() for row in self._tmux("capture-pane", "-p").splitlines()]

    def styled(self) -> str:
        return self._tmux("capture-pane", "-e", "-p")

    def told(self, what: str) -> str:
        return self._tmux("display-message", "-p", what).strip()

    def wait(self, *texts: str, unless: str = "\0") -> list[str]:
        """Until all of it stands on the screen, and the other does not."""

        def is_there(shown: list[str]) -> bool:
            text = "\n".join([*shown, " ".join(shown)])  # a sentence may go over several rows
            return all(one in text for one in texts) and unless not in text

        return self._until(is_there)

    def wait_filled(self, columns: int, rows: int) -> None:
        """Until the screen has that size, and the first and the last row reach its right edge."""
        self._until(
            lambda shown: (
                len(shown) == rows
                and len(shown[0]) == len(shown[-1]) == columns
                and shown[0].endswith("running 12 min 03 s")
                and shown[-1].endswith("? help")
            )
        )

    def _until(self, is_there: Callable[[list[str]], bool]) -> list[str]:
        until = time.monotonic() + PATIENCE_S
        while not is_there(shown := self.rows()):
            assert time.monotonic() < until, "\n".join(shown)
            time.sleep(0.05)
        return shown

    def save(self, name: str, columns: int) -> None:
        """For people to look at, where somebody wants that."""
        folder = os.environ.get("STEPSCOPE_SCREENSHOTS")
        if folder:
            console = Console(record=True, width=columns, file=io.StringIO())
            console.print(Text.from_ansi(self.styled()))
            Path(folder).mkdir(parents=True, exist_ok=True)
            console.save_svg(str(Path(folder, f"{name}.svg")), title=name)

    def _tmux(self, *words: str) -> str:
        command = ["tmux", "-L", self._name, *words]
        done = subprocess.run(
            command, env=ENVIRONMENT, capture_output=True, timeout=PATIENCE_S, check=True
        )
        return done.stdout.decode("utf-8", "replace")


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[Screen]:
    made = Screen(tmp_path)
    yield made
    made.close()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    made = tmp_path / "runs" / "mnist"
    made.mkdir(parents=True)
    write_meta(made, {"name": "mnist", "ended_unix": None})
    tell(made)
    return made


def tell(folder: Path, **others: Any) -> None:
    """As its launcher does, for as long as the test lasts."""
    write_live(folder, made_view(told_unix=time.time() + 3600, **others))


def test_keys_and_sizes_and_the_end_of_the_run(shown: Screen, run: Path) -> None:
    shown.watch(run)
    assert shown.wait(VERDICT, "q quit")[0].startswith("stepscope mnist")
    shown.wait_filled(80, 24)
    shown.save("watch-overview", 80)

    shown.type("a")
    shown.wait("> high     steps take 31 %", "enter details", unless="Phases")
    shown.type("Down")
    shown.wait("> moderate memory grows")
    shown.type("Enter")
    shown.wait("Where: train.py:48 in augment", "What to do:", unless=VERDICT)
    shown.save("watch-alert", 80)
    shown.type("Escape")
    shown.wait("> moderate memory grows", "enter details")
    shown.type("p")
    shown.wait("python between", "esc back", unless="Alerts")
    shown.type("?")
    shown.wait("leave; the run goes on")
    shown.type("r")
    shown.wait("disk reads      12 MB/s")

    shown.resize(120, 40)
    shown.wait_filled(120, 40)
    assert "disk reads      12 MB/s" in shown.rows()
    shown.save("watch-resources", 120)
    shown.resize(40, 10)
    shown.wait_filled(40, 10)
    shown.resize(80, 24)
    shown.wait_filled(80, 24)
    shown.type("r")
    shown.wait("Phases", "11,734 steps")

    shown.type("Space")
    shown.wait("display paused")
    tell(run, steps=22_222)
    shown.type("a")  # a key draws anew, a moment later than news would be there
    shown.wait("enter details", "11,734 steps")
    shown.type("a", "Space")
    shown.wait("22,222 steps", unless="display paused")

    write_summary(run, input_bound())
    write_meta(run, {"name": "mnist", "started_unix": 1.0, "ended_unix": 61.0, "exit_code": 0})
    shown.wait("finished after 1 min 00 s", "Input-bound: computing samples takes 75 %", "q quit")
    shown.type("q")
    shown.wait("left with 0", "clean", unless="Input-bound")


def test_signals_leave_the_terminal_clean_and_nothing_hostile_reaches_it(
    shown: Screen, run: Path
) -> None:
    title = shown.told("#{pane_title}")
    evil = "\x1b]0;owned\x07\x1b[2J[red]evil[/red]"
    tell(run, run=evil, verdict=made_finding("leak", evil))
    shown.watch(run)
    shown.wait("[red]evil[/red].", "q quit")
    assert shown.told("#{pane_title}") == title
    (run / "live.json").write_text("{")
    shown.wait("cannot be shown", "[red]evil[/red].")
    tell(run)
    shown.wait(VERDICT, unless="cannot be shown")
    shown.type("C-c")
    shown.wait("left with 130", "clean", unless="q quit")

    shown.watch(run, before="LC_ALL=C NO_COLOR=1; export LC_ALL NO_COLOR;")
    rows = shown.wait(VERDICT, "q quit")
    assert "\n".join(rows).isascii()
    assert not any(f"\x1b[{colour}m" in shown.styled() for colour in range(31, 38))
    shown.type("C-z")
    shown.wait("left with", "clean", unless="q quit")
    shown.type("clear; fg; echo then with $?; stty -g | cmp - before && echo still clean", "Enter")
    shown.wait(VERDICT, "q quit")
    shown.signal(signal.SIGTERM)
    shown.wait("then with 143", "still clean", unless="q quit")
