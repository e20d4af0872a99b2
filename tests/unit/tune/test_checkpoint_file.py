"""Files as torch.save writes them."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

from stepscope.tune.checkpoint_file import CheckpointWriter


def state() -> dict[str, Any]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Linear(7, 3, dtype=torch.float64))
    shared = torch.arange(10, dtype=torch.int32)
    return {
        "model": model.state_dict(),
        "shared": [shared, shared[2:5]],
        "text": "x",
        "none": torch.empty(0),
    }


def same(left: Any, right: Any) -> bool:
    if isinstance(left, torch.Tensor):
        looks = [(one.dtype, one.shape, one.stride()) for one in (left, right)]
        return looks[0] == looks[1] and bool(torch.equal(left, right))
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def test_torch_loads_what_was_written_and_zip_finds_it_whole(tmp_path: Path) -> None:
    path = tmp_path / "last.pt"
    CheckpointWriter(torch, torch.save).write(state(), str(path), "last")
    loaded = torch.load(path)
    assert same(loaded, state())
    loaded["shared"][0][2] = 99
    assert loaded["shared"][1][0] == 99
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None


def test_tensors_can_be_mapped_into_memory(tmp_path: Path) -> None:
    path = tmp_path / "last.pt"
    CheckpointWriter(torch, torch.save).write(state(), str(path), "last")
    assert same(torch.load(path, mmap=True), state())
    tensors = torch.load(path, mmap=True)["model"].values()
    assert all(tensor.data_ptr() % 64 == 0 for tensor in tensors)


def test_records_are_those_of_torch(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.pt", tmp_path / "theirs.pt"
    CheckpointWriter(torch, torch.save).write(state(), str(ours), "theirs")
    torch.save(state(), theirs)
    with zipfile.ZipFile(ours) as one, zipfile.ZipFile(theirs) as other:
        names = set(one.namelist())
        assert set(other.namelist()) - names == {"theirs/.data/serialization_id"}
        assert all(one.read(name) == other.read(name) for name in names)


def test_a_torch_that_writes_other_records_writes_by_itself(tmp_path: Path) -> None:
    calls: list[Any] = []

    def save(value: Any, where: Any) -> None:
        calls.append(where)
        if not isinstance(where, str):
            with zipfile.ZipFile(where, "w") as archive:
                archive.writestr("archive/version", "9")
                archive.writestr("archive/something/new", "")

    CheckpointWriter(torch, save).write({}, str(tmp_path / "a.pt"), "a")
    assert calls[1:] == [str(tmp_path / "a.pt")]
