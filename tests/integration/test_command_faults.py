"""Disks, folders and processes that go away under `stepscope run`: the program does not notice."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import stepscope
from tests.integration.recording import TEXT

pytestmark = pytest.mark.timed

STEPSCOPE = [sys.executable, "-m", "stepscope"]
Script = Callable[..., list[str]]


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    monkeypatch.chdir(tmp_path)

    def make(text: str, *options: str) -> list[str]:
        (tmp_path / "program.py").write_text(TEXT + text)
        return [*STEPSCOPE, "run", *options, "program.py"]

    return make


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def spans(folder: str | Path) -> int:
    table = stepscope.open_trace(folder).sql(
        "SELECT count(*) AS n FROM spans WHERE name = 'optimizer.step' AND flags & 2 = 0"
    )
    return int(table.to_pylist()[0]["n"])


def test_what_a_program_recorded_is_all_there(script: Script) -> None:
    done = run(script("train(50); recorder.close(); print('end')", "-o", "run"))
    assert (done.returncode, done.stdout) == (0, "end\n")
    assert spans("run") == 50
    assert not list(Path("run").rglob("*.frames"))
    meta = json.loads(Path("run/meta.json").read_text())
    assert meta["losses"] == {"dropped_events": 0, "lost_events": 0, "reason": ""}
    assert meta["settings"] == {"level": "basic", "memory": []}


def test_many_files_are_converted_while_the_program_runs(script: Script) -> None:
    text = """
names_ = [recorder.intern(f"n{i}") for i in range(3)]
end = time.monotonic() + 3.5
total = 0
while total < 400_000:
    for _ in range(1000):
        recorder.sample(names_[0], 1.0)
    total += 1000
    time.sleep(0.002)
while time.monotonic() < end:
    time.sleep(0.1)
recorder.close()
print(total, len([f for f in os.listdir(os.path.dirname(base)) if f.endswith(".arrows")]))
"""
    done = run(script(text, "-o", "run"))
    total, streams = map(int, done.stdout.split())
    assert streams == 1  # it was there before the program had ended
    counted = stepscope.open_trace("run").sql("SELECT count(*) AS n FROM samples WHERE name = 'n0'")
    dropped = json.loads(Path("run/meta.json").read_text())["losses"]["dropped_events"]
    assert counted.to_pylist() == [{"n": total - dropped}]


def test_a_folder_that_cannot_be_made_gives_way_to_another(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    Path("occupied").write_text("a file")
    done = run(script("train(3); recorder.close()", "-o", "occupied/run"))
    assert done.returncode == 0
    (line,) = [line for line in done.stderr.splitlines() if "cannot write to" in line]
    folder = Path(line.rsplit(" ", 1)[1].rstrip("."))
    assert spans(folder) == 3


def test_a_run_folder_that_vanishes_is_told_and_changes_nothing(script: Script) -> None:
    text = """
import shutil
train(5); recorder.flush()
shutil.rmtree(os.environ["STEPSCOPE_RUN"])
train(5); recorder.close()
sys.exit(4)
"""
    done = run(script(text, "-o", "run"))
    assert done.returncode == 4
    said = " ".join(done.stderr.split())
    assert "events could not be written to disk" in said
    assert "Writing failed with: No such file or directory" in said
    assert "is gone: nothing of this run is kept" in said
    assert "Traceback" not in said


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    try:
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        pytest.skip("a small disk cannot be mounted here")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk_is_told_and_changes_nothing(script: Script, small_disk: Path) -> None:
    done = run(script("train(2000, 0.0); recorder.close(); sys.exit(6)", "-o", f"{small_disk}/run"))
    assert done.returncode == 6
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_disk_that_fills_up_at_the_end_keeps_what_was_recorded(
    script: Script, small_disk: Path
) -> None:
    text = f"""
train(60, 0.0); recorder.close()
with open({str(small_disk / "filler")!r}, "wb") as file:
    try:
        while file.write(bytes(512)):
            file.flush()
    except OSError:
        os._exit(0)
"""
    done = run(script(text, "-o", f"{small_disk}/run"))
    assert done.returncode == 0
    assert "events were kept as frames: No space left on device" in done.stderr
    assert spans(small_disk / "run") == 60


def test_a_program_killed_in_the_middle_leaves_all_but_the_last_moment(script: Script) -> None:
    text = "train(20); recorder.flush(); train(3); os.kill(pid, 9)"
    done = run(script(text, "-o", "run"))
    assert done.returncode == -signal.SIGKILL
    assert 20 <= spans("run") <= 23


def test_a_killed_launcher_leaves_the_program_and_its_events(script: Script) -> None:
    text = """
print(pid, flush=True)
train(20); recorder.flush()
print("ready", flush=True)
time.sleep(1.0)
train(20); recorder.close()
open("finished", "w").close()
"""
    process = subprocess.Popen(script(text, "-o", "run"), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.readline()
    assert wait_for(lambda: Path("run/meta.json").exists())  # a loaded launcher is behind
    process.kill()
    process.communicate(timeout=30)
    assert wait_for(lambda: Path("finished").exists())
    assert spans("run") == 40
    meta = json.loads(Path("run/meta.json").read_text())
    assert meta["ended_unix"] is None
    shutil.rmtree(meta["status_folder"])


def test_a_process_that_outlives_the_program_goes_on_recording(script: Script) -> None:
    text = """
import subprocess
if sys.argv[1:]:
    train(10); recorder.flush()
    open("flushed", "w").close()
    while not os.path.exists("go on"):
        time.sleep(0.05)
    train(10); recorder.close()
    open("finished", "w").close()
else:
    recorder.close()
    null = subprocess.DEVNULL
    subprocess.Popen([sys.executable, __file__, "x"], stdin=null, stdout=null, stderr=null)
    while not os.path.exists("flushed"):
        time.sleep(0.05)
"""
    done = run(script(text, "-o", "run"))
    assert done.returncode == 0
    assert spans("run") == 10
    Path("go on").touch()
    assert wait_for(lambda: Path("finished").exists())
    assert spans("run") == 20


def test_status_pages_are_cleared_away(script: Script) -> None:
    text = "print(os.environ['STEPSCOPE_STATUS']); train(2); recorder.close()"
    done = run(script(text))
    assert not Path(done.stdout.strip()).exists()


def wait_for(condition: Callable[[], bool], seconds: float = 20) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()
