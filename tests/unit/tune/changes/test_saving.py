"""torch.save in the background."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import torch

from stepscope.collect.saves import SavesCollector
from stepscope.record.recorder import Recorder
from stepscope.tune.changes.saving import Saving
from tests.unit.tune.changes.host_support import Heard, small_model, train


class Held(Saving):
    """Nothing is written before the gate is open; whoever waits for a file opens it."""

    def install(self) -> None:
        super().install()
        self.gate = threading.Event()
        self.written: list[str] = []
        write, wait_while = self._writer.write, self._background._wait_while

        def held(value: Any, path: str, name: str) -> None:
            assert self.gate.wait(60)
            self.written.append(path)
            write(value, path, name)

        def waited(holds: Callable[[], bool]) -> None:
            if holds():
                self.gate.set()
            wait_while(holds)

        self._writer.write = held  # type: ignore[method-assign]
        self._background._wait_while = waited  # type: ignore[method-assign]


@pytest.fixture
def saving() -> Iterator[Held]:
    change = Held({}, Heard())
    change.install()
    yield change
    change.gate.set()
    change.finish()
    change.undo()


def save(value: Any, path: Any) -> None:
    torch.save(value, path)


def test_the_program_goes_on_and_the_file_holds_the_moment_of_the_call(
    saving: Held, tmp_path: Path
) -> None:
    tensor = torch.ones(3)
    save({"x": tensor, "step": 1}, tmp_path / "a.pt")
    tensor.zero_()
    assert saving.written == []
    loaded = torch.load(tmp_path / "a.pt")
    assert loaded["x"].tolist() == [1, 1, 1]
    assert loaded["step"] == 1
    assert saving.told.whats == ["torch.save in the background"]  # type: ignore[attr-defined]
    assert saving.told.functions == ["save"]  # type: ignore[attr-defined]


def removed(path: Path) -> bool:
    path.unlink()
    return not path.exists()


LOOKS: dict[str, Callable[[Path], object]] = {
    "exists": lambda path: path.exists(),
    "is_file": lambda path: path.is_file(),
    "getsize": lambda path: path.stat().st_size > 100,
    "open": lambda path: path.read_bytes()[:2] == b"PK",
    "iterdir": lambda path: list(path.parent.iterdir()) == [path],
    "glob": lambda path: list(path.parent.glob("*.pt")) == [path],
    "remove": removed,
    "rename": lambda path: path.rename(path.with_name("b")).exists() and not path.exists(),
    "process": lambda path: subprocess.run(["test", "-s", path], check=True),
}


@pytest.mark.parametrize("look", LOOKS)
def test_whoever_looks_finds_the_whole_file(saving: Held, tmp_path: Path, look: str) -> None:
    save([torch.ones(50)], tmp_path / "a.pt")
    assert LOOKS[look](tmp_path / "a.pt")
    assert [one for one in tmp_path.iterdir() if one.suffix == ".stepscope-part"] == []


def test_a_temporary_name_is_changed_on_the_way(saving: Held, tmp_path: Path) -> None:
    for number in range(5):
        save({"number": number}, tmp_path / "last.tmp")
        (tmp_path / "last.tmp").rename(tmp_path / "last.pt")
        if number == 1:
            assert saving.written == []  # nobody has waited so far
    assert torch.load(tmp_path / "last.pt")["number"] == 4
    assert list(tmp_path.iterdir()) == [tmp_path / "last.pt"]
    assert len(saving.written) < 5


def test_our_own_look_at_the_size_waits_for_nobody(saving: Held, tmp_path: Path) -> None:
    collector = SavesCollector()
    collector.start(Recorder())
    try:
        save({"x": torch.ones(2)}, tmp_path / "a.pt")
        assert saving.written == []
    finally:
        collector.stop()


def test_open_files_and_objects_of_their_own_are_saved_as_before(
    saving: Held, tmp_path: Path
) -> None:
    buffer = BytesIO()
    save({"x": 1}, buffer)
    with (tmp_path / "a.pt").open("wb") as file:
        save({"x": 2}, file)
    save(small_model(), tmp_path / "model.pt")
    assert saving.written == []
    buffer.seek(0)
    assert torch.load(buffer) == {"x": 1}
    assert torch.load(tmp_path / "a.pt") == {"x": 2}
    assert isinstance(torch.load(tmp_path / "model.pt", weights_only=False), torch.nn.Sequential)
    assert saving.told.done == []  # type: ignore[attr-defined]
    assert len(saving.told.no) == 3  # type: ignore[attr-defined]


def test_errors_are_raised_where_the_program_made_them(saving: Held, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="does not exist"):
        save({}, tmp_path / "missing" / "a.pt")
    with pytest.raises((RuntimeError, OSError)):
        save({}, tmp_path)
    with pytest.raises(AttributeError):
        save({}, 7)
    with pytest.raises(FileNotFoundError):
        torch.load(tmp_path / "none.pt")
    with pytest.raises(FileNotFoundError):
        (tmp_path / "none").rename(tmp_path / "any")


def test_what_cannot_be_written_is_raised_at_the_next_save(saving: Held, tmp_path: Path) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    saving._writer.write = full  # type: ignore[method-assign, assignment]
    save({"x": 1}, tmp_path / "a.pt")
    with pytest.raises(OSError, match="No space"):
        torch.load(tmp_path / "a.pt")


def test_a_training_that_saves_ends_with_the_same_losses_and_files(
    saving: Held, tmp_path: Path
) -> None:
    model = small_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    plain = small_model()
    expected = train(plain, torch.optim.Adam(plain.parameters(), lr=0.1), steps=3)
    found = []
    for step in range(3):
        found += train_one(model, optimizer, step)
        save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "a.pt")
    saving.finish()
    loaded = torch.load(tmp_path / "a.pt")
    assert found == expected
    assert all(torch.equal(loaded["model"][name], one) for name, one in plain.state_dict().items())
    assert loaded["optimizer"]["param_groups"] == optimizer.state_dict()["param_groups"]


def train_one(model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int) -> list[float]:
    numbers = torch.Generator().manual_seed(3)
    for _ in range(step):
        torch.randn(5, 6, generator=numbers)
    loss = model(torch.randn(5, 6, generator=numbers)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return [loss.item()]


def test_what_is_saved_at_the_very_end_is_written_at_once(saving: Held, tmp_path: Path) -> None:
    saving.finish()
    save({"x": 1}, tmp_path / "a.pt")
    assert saving.written == []
    assert torch.load(tmp_path / "a.pt") == {"x": 1}


def test_undo_puts_everything_back(tmp_path: Path) -> None:
    names = "stat", "open", "rename", "replace", "scandir", "_exit"
    before = [getattr(os, name) for name in names], torch.save, torch.load, open
    change = Saving({}, Heard())
    change.install()
    assert os.stat in os.supports_dir_fd
    torch.save({"x": 1}, tmp_path / "a.pt")
    change.finish()
    change.undo()
    assert ([getattr(os, name) for name in names], torch.save, torch.load, open) == before
    assert torch.serialization.save is torch.save
    assert (tmp_path / "a.pt").exists()


PROGRAM = """
import os, sys, torch
from unittest.mock import Mock
from stepscope.tune.changes.saving import Saving
Saving({}, Mock()).install()
torch.save({"x": torch.ones(1000)}, "forked.pt")
child = os.fork()
if child == 0:
    os._exit(0 if torch.load("forked.pt")["x"].sum() == 1000 else 9)
assert os.waitpid(child, 0)[1] == 0
torch.save({"x": torch.ones(1000)}, "end.pt")
os._exit(3)
"""


def test_children_and_the_end_find_the_files(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], cwd=tmp_path, check=False)
    assert ended.returncode == 3
    assert torch.load(tmp_path / "end.pt")["x"].sum() == 1000
