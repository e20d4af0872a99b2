"""What a dataset holds, whether it changed, and which generators it can draw from."""

from __future__ import annotations

import random
import socket
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from stepscope.tune.loading.board import Board
from stepscope.tune.loading.randomness import Generators
from stepscope.tune.loading.state import changes_itself, fingerprint, held_open, on_accelerator


class Thing:
    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


def test_an_open_file_is_found_wherever_the_dataset_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("w") as file:
        found = held_open(Thing(dataset=Thing(files=[1, {"a": file}])))
        assert found == "its open file \"dataset.files[1]['a']\""
    assert held_open(Thing(file=file)) == "", "it is closed"


def test_connections_and_archives_count_as_open(tmp_path: Path) -> None:
    with socket.socket() as connection:
        assert held_open(Thing(store=connection)) == "its open connection 'store'"
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        assert held_open(Thing(archive=archive)) == "its open connection 'archive'"
    assert held_open(Thing(names=["a"], x=torch.ones(1))) == ""


def test_a_cycle_of_objects_ends() -> None:
    one = Thing()
    one.other = Thing(back=one)  # type: ignore[attr-defined]

    assert fingerprint(one) == fingerprint(one)


def test_tensors_on_the_host_are_on_no_accelerator() -> None:
    assert not on_accelerator(Thing(x=torch.ones(1)))
    assert on_accelerator(Thing(parts=[torch.ones(1, device="meta")]))


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda thing: setattr(thing, "epoch", 2), "epoch"),
        (lambda thing: thing.names.append("b"), "names"),
        (lambda thing: thing.x.add_(1), "x"),
        (lambda thing: setattr(thing.inner, "scale", 0.5), "inner.scale"),
        (lambda thing: setattr(thing, "new", None), "new"),
        (lambda thing: delattr(thing, "epoch"), "epoch"),
        (lambda thing: None, ""),
    ],
)
def test_what_was_set_filled_or_written_is_named(change: Any, name: str) -> None:
    thing = Thing(epoch=1, names=["a"], x=torch.ones(2), inner=Thing(scale=1.0), nan=float("nan"))
    before = fingerprint(thing)

    change(thing)

    assert changes_itself(before, thing).split("[")[0] == name


OWN: dict[str, Any] = {
    "python": (random.Random(1), lambda own: own.random()),
    "torch": (torch.Generator().manual_seed(1), lambda own: torch.rand(1, generator=own).item()),
    "numpy": (np.random.default_rng(1), lambda own: own.random()),
    "numpy, with arrays": (
        np.random.Generator(np.random.MT19937(1)),
        lambda own: own.random(),
    ),
    "numpy, old": (np.random.RandomState(1), lambda own: own.rand()),
    "python, global": (None, lambda _: random.random()),
    "torch, global": (None, lambda _: torch.rand(1).item()),
    "numpy, global": (None, lambda _: np.random.rand()),
}


@pytest.mark.parametrize("kind", OWN)
def test_a_draw_is_seen_and_put_back(kind: str) -> None:
    own, draw = OWN[kind]
    generators = Generators(Thing(tools=[own]))
    assert not generators.drawn()

    first = draw(own)
    assert generators.drawn()
    generators.put_back()

    assert not generators.drawn()
    assert draw(own) == first


def test_a_board_is_the_same_for_whoever_it_is_sent_to() -> None:
    import pickle

    board = Board()
    copy = pickle.loads(pickle.dumps(board))

    copy[3] = 7

    assert board[3] == 7


def test_a_board_that_cannot_be_reached_is_one_of_its_own() -> None:
    import pickle

    board = Board()
    state = pickle.dumps(board)
    del board

    copy = pickle.loads(state)
    copy[0] = 1

    assert copy[0] == 1
