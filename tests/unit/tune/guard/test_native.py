"""Libraries that open files by name themselves."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
import torch

from stepscope.tune.guard import native
from stepscope.tune.guard.native import Native
from stepscope.tune.guard.redirect import Redirect
from tests.unit.tune.guard.world import World

TORCH = """
import os, sys, warnings
warnings.simplefilter("ignore")
import numpy, torch

assert torch.load("checkpoints/real.pt")["step"] == 1
torch.save({"step": 2, "weight": torch.ones(3)}, "checkpoints/real.pt")
assert torch.load("checkpoints/real.pt")["step"] == 2
assert torch.load("checkpoints/real.pt", mmap=True)["weight"].sum() == 3
torch.save([1], "checkpoints/new.pt")
torch.save([2], "checkpoints/new.tmp")
os.replace("checkpoints/new.tmp", "checkpoints/new.pt")
assert torch.load("checkpoints/new.pt") == [2]
with open("checkpoints/buffer.pt", "wb") as file:
    torch.save([3], file)
assert torch.load("checkpoints/buffer.pt") == [3]
try:
    torch.save([1], "none/new.pt")
except RuntimeError as error:
    assert "Parent directory none does not exist" in str(error)
torch.jit.save(torch.jit.script(torch.nn.Linear(2, 3)), "model.pt")
assert torch.jit.load("model.pt").weight.shape == (3, 2)
mapped = torch.from_file("data/a.txt", shared=True, size=1, dtype=torch.uint8)
mapped.fill_(ord("b"))
assert open("data/a.txt").read() == "b"

numpy.save("array.npy", numpy.arange(3))
assert numpy.load("array.npy", mmap_mode="r+").sum() == 3
numpy.arange(4).tofile("array.bin")
assert len(numpy.fromfile("array.bin", dtype=int)) == 4
print("done")
"""


@pytest.fixture
def database(tmp_path: Path) -> Path:
    file = tmp_path.resolve() / "runs.db"
    with sqlite3.connect(file) as connection:
        connection.execute("create table runs (loss)")
        connection.execute("insert into runs values (1.5)")
    connection.close()
    return file


def test_torch_and_numpy_save_into_the_scratch_folder(world: World) -> None:
    torch.save({"step": 1}, world.project / "checkpoints" / "real.pt")
    assert world.run(TORCH) == "done\n"


def test_a_database_is_changed_in_its_copy(world: World, database: Path) -> None:
    database.rename(world.project / "runs.db")
    program = """
import sqlite3
for name, uri in (("runs.db", False), ("file:runs.db?mode=rw", True), ("new.db", False)):
    connection = sqlite3.connect(name, uri=uri)
    with connection:
        connection.execute("create table if not exists runs (loss)")
        connection.execute("insert into runs values (2.5)")
    print(connection.execute("select count(*) from runs").fetchone()[0])
    connection.close()
connection = sqlite3.connect(":memory:")
connection.close()
"""
    assert world.run(program).split() == ["2", "3", "1"]


def test_a_large_database_is_read_where_it_is(
    redirect: Redirect, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    libraries = Native(redirect.opening, redirect.reading)
    monkeypatch.setattr(native, "_DATABASE_LIMIT_BYTES", database.stat().st_size - 1)
    assert libraries.database(str(database)) == str(database)
    monkeypatch.setattr(native, "_DATABASE_LIMIT_BYTES", database.stat().st_size)
    copied = libraries.database(str(database))
    assert copied != str(database)
    assert Path(copied).read_bytes() == database.read_bytes()


def test_what_is_no_path_is_given_as_it_is(redirect: Redirect) -> None:
    libraries = Native(redirect.opening, redirect.reading)
    buffer = object()
    assert libraries.place(buffer, 0) is buffer
    assert libraries.place("/none/at/all", 0) == "/none/at/all"
