"""The kernel's part, in processes of their own: it cannot be taken back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from stepscope.tune.guard import landlock
from stepscope.tune.guard.landlock import available

needs_landlock = pytest.mark.skipif(not available(), reason="this kernel has no Landlock")

PROGRAM = """
import os, sys
from stepscope.tune.guard.landlock import restrict
inside, outside, file = sys.argv[1:]
restrict([inside, file, "/none/at/all"])
def tried(what):
    try:
        what()
    except OSError as error:
        return error.errno
    return 0
open(f"{inside}/a", "w").write("a")
os.mkdir(f"{inside}/sub")
os.rename(f"{inside}/a", f"{inside}/sub/a")
open(file, "w").write("changed")
results = [
    tried(lambda: open(f"{outside}/new", "w")),
    tried(lambda: open(f"{outside}/old", "a")),
    tried(lambda: os.truncate(f"{outside}/old", 0)),
    tried(lambda: os.remove(f"{outside}/old")),
    tried(lambda: os.mkdir(f"{outside}/sub")),
    tried(lambda: os.symlink("a", f"{outside}/link")),
    tried(lambda: os.mkfifo(f"{outside}/pipe")),
    tried(lambda: os.remove(file)),
]
assert set(results) == {13}, results
assert tried(lambda: os.rename(f"{inside}/sub/a", f"{outside}/a")) in (13, 18)
assert open(f"{outside}/old").read() == "old"
print("done")
"""


@needs_landlock
def test_only_allowed_places_can_be_written(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "old").write_text("old")
    (outside / "file").write_text("file")
    places = [str(inside), str(outside), str(outside / "file")]
    command = [sys.executable, "-c", PROGRAM, *places]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("done\n", "")
    assert (outside / "old").read_text() == "old"
    assert (outside / "file").read_text() == "changed"


def test_a_kernel_without_it_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "_abi", lambda: 1)
    assert not available()
    with pytest.raises(OSError, match="no Landlock"):
        landlock.restrict(["/none/at/all"])
