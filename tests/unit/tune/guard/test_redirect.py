"""Whole programs, under both layers: each sees its own changes, the originals stay."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.unit.tune.guard.world import World

FILES = """
import csv, glob, io, json, logging, os, pathlib, pickle, shutil, subprocess, tempfile
from pathlib import Path

# Resuming: the original is seen.
assert os.path.exists("checkpoints/last.pt")
assert Path("checkpoints/last.pt").read_text() == "the last"

# Appending to a log, with plain files and with logging.
with open("log.jsonl", "a") as log:
    log.write(json.dumps({"step": 2}) + "\\n")

assert Path("log.jsonl").read_text() == '{"step": 1}\\n{"step": 2}\\n'
handler = logging.FileHandler("log.jsonl")
logging.getLogger().addHandler(handler)
logging.warning("from logging")
handler.close()
assert Path("log.jsonl").read_text().endswith("from logging\\n")
with open("table.csv", "w", newline="") as table:
    csv.writer(table).writerow([1, 2])
assert Path("table.csv").read_bytes() == b"1,2\\r\\n"

# Saving beside and putting in place.
Path("checkpoints/last.tmp").write_bytes(b"new")
os.replace("checkpoints/last.tmp", "checkpoints/last.pt")
assert Path("checkpoints/last.pt").read_bytes() == b"new"
with tempfile.NamedTemporaryFile(delete=False) as temporary:
    temporary.write(b"newer")
shutil.move(temporary.name, "checkpoints/last.pt")
assert Path("checkpoints/last.pt").read_bytes() == b"newer"

# Folders: both layers are found.
os.makedirs("runs/1/events", exist_ok=True)
os.makedirs("runs/1/events", exist_ok=True)
Path("checkpoints/step-2.pt").touch()
names = [os.path.basename(path) for path in sorted(glob.glob("checkpoints/*.pt"))]
assert names == ["best.pt", "last.pt", "step-2.pt"]
assert {path.name for path in Path().rglob("*.pt")} == {*names, "1.pt"}
assert ("runs/1", ["events"], []) in list(os.walk("runs"))

# Removing and moving.
os.remove("checkpoints/best.pt")
assert not os.path.exists("checkpoints/best.pt") and "best.pt" not in os.listdir("checkpoints")
os.rename("checkpoints", "moved")
assert sorted(os.listdir("moved")) == ["last.pt", "old", "step-2.pt"]
shutil.rmtree("moved")
assert not Path("moved").exists() and not Path("checkpoints").exists()
shutil.copytree("data", "copied")
assert Path("copied/a.txt").read_text() == "a"
os.chmod("log.jsonl", 0o600)
shutil.copy2("log.jsonl", "copied")

# A working folder that only the program sees, also in its children.
os.chdir("runs/1")
assert os.getcwd() == str(Path.cwd()) == os.path.realpath(".")
assert os.getcwd().endswith("/project/runs/1")
assert subprocess.run(["pwd"], cwd="events", check=True, capture_output=True).returncode == 0
os.chdir("../..")

# A module that the program writes.
Path("data/written_module.py").write_text("value = 42")
import sys
sys.path.insert(0, "data")
import written_module
assert written_module.value == 42

# They are what they were to those who look closely.
assert pickle.loads(pickle.dumps(open)) is open
assert pickle.loads(pickle.dumps(os.remove)) is os.remove
assert os.stat in os.supports_dir_fd and shutil.rmtree.avoids_symlink_attacks
class Holder:
    opener = open
assert Holder().opener(os.devnull).read() == ""
try:
    open("none.txt")
except FileNotFoundError as error:
    assert error.filename == "none.txt" and error.errno == 2
try:
    os.rename("none.txt", "other.txt")
except FileNotFoundError as error:
    assert (error.filename, error.filename2) == ("none.txt", "other.txt")
print("done")
"""

PROCESSES = """
import multiprocessing, os, subprocess, sys
from pathlib import Path

def look(name):
    assert not os.path.exists("checkpoints/best.pt")
    assert Path("log.jsonl").read_text() == "changed"
    Path(name).write_text(name)
    os.remove(f"{name}.old")

if __name__ == "__main__":
    os.remove("checkpoints/best.pt")
    Path("log.jsonl").write_text("changed")
    for way in ("fork", "spawn"):
        Path(f"{way}.old").touch()
        child = multiprocessing.get_context(way).Process(target=look, args=(way,))
        child.start()
        child.join()
        assert child.exitcode == 0, way
        assert Path(way).read_text() == way and not Path(f"{way}.old").exists()
    program = "import os; os.rename('log.jsonl', 'log.1'); print(sorted(os.listdir('.')))"
    listed = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert "best" not in listed and "log.1" in listed and "'log.jsonl'" not in listed
    assert Path("log.1").read_text() == "changed" and not Path("log.jsonl").exists()
    print("done")
"""

PAST_PYTHON = """
import ctypes, os, subprocess
from pathlib import Path

for command in (["touch", "new"], ["rm", "log.jsonl"], ["mkdir", "folder"], ["mv", "data", "d"],
                ["truncate", "-s", "0", "log.jsonl"], ["sh", "-c", "echo x >> log.jsonl"],
                ["cp", "log.jsonl", "copy"], ["ln", "log.jsonl", "link"]):
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0 and "ermission denied" in done.stderr, (command, done)
libc = ctypes.CDLL(None, use_errno=True)
assert libc.open(b"log.jsonl", os.O_WRONLY) == -1 and ctypes.get_errno() == 13
assert libc.truncate(b"log.jsonl", 0) == -1 and libc.unlink(b"log.jsonl") == -1
subprocess.run(["sh", "-c", "echo x > /dev/null && echo x > $TMPDIR/x"], check=True)
assert subprocess.check_output(["cat", "log.jsonl"]) == b'{"step": 1}\\n'
Path("/proc/self/oom_score_adj").write_text(Path("/proc/self/oom_score_adj").read_text())
print("done")
"""


def test_a_program_sees_what_it_wrote_and_the_originals_stay(world: World) -> None:
    assert world.run(FILES) == "done\n"
    assert world.guarded.written_bytes() > 0


def test_every_python_process_of_a_program_sees_the_same(world: World) -> None:
    assert world.run(PROCESSES) == "done\n"


def test_what_goes_past_python_is_refused(world: World) -> None:
    assert world.run(PAST_PYTHON) == "done\n"


def test_a_python_that_does_not_join_can_write_nothing(world: World) -> None:
    done = world.start(sys.executable, "-S", "-c", "open('log.jsonl', 'w')")
    assert done.returncode == 1
    assert "PermissionError" in done.stderr


def test_joining_imports_next_to_nothing(world: World) -> None:
    program = "import sys; print(*sorted(sys.modules))"
    done = world.start(sys.executable, "-c", program)
    loaded = {name for name in done.stdout.split() if not name.startswith("stepscope")}
    heavy = {"torch", "typing", "pathlib", "json", "ctypes", "shutil", "tempfile", "subprocess"}
    assert not loaded & heavy


def test_the_run_folder_is_written_as_it_is(world: World, tmp_path: Path) -> None:
    target = tmp_path.resolve() / "run" / "record"
    world.run(f"open({str(target)!r}, 'w').write('recorded')")
    assert target.read_text() == "recorded"
