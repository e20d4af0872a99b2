"""Batches in one piece of shared memory: they arrive as what they were."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from stepscope.collect.digest import digest
from stepscope.collect.envelope import payload_bytes
from stepscope.tune.changes.packing import Packing
from stepscope.tune.loading.pack import packed
from tests.unit.tune.changes.loading import epochs, made, watched


class Named(NamedTuple):
    x: Any
    y: Any


BIG = np.arange(1 << 19, dtype=np.float32).reshape(512, 1_024)  # 2 MiB
TENSORS = [torch.full((7,), float(number)) for number in range(12)]
BATCHES: dict[str, Any] = {
    "an array": BIG,
    "Fortran's order": np.asfortranarray(BIG),
    "every second row": np.concatenate([BIG, BIG])[::2],
    "bytes and words": {"a": np.zeros((200, 100), np.uint8), "b": np.array(["word"] * (1 << 17))},
    "times": np.arange(1 << 18).astype("datetime64[s]"),
    "records": np.zeros(1 << 18, dtype=[("a", "<f8"), ("b", "<i2")]),
    "a small array beside it": (BIG, np.arange(3)),
    "many tensors": TENSORS,
    "of several kinds": {
        f"{dtype}": [torch.ones(3, 2, dtype=dtype), *TENSORS]
        for dtype in (torch.int8, torch.bool, torch.bfloat16, torch.complex64)
    },
    "named": Named(BIG, [TENSORS, "text", None]),
}


def sent(batch: Any) -> Any:
    return ForkingPickler.loads(ForkingPickler.dumps(batch))


def kinds(batch: Any) -> Any:
    """Types, shapes and order in memory, all the way down."""
    if isinstance(batch, dict):
        return [(key, kinds(one)) for key, one in batch.items()]
    if isinstance(batch, (list, tuple)):
        return type(batch), [kinds(one) for one in batch]
    if isinstance(batch, np.ndarray):
        return np.ndarray, batch.dtype, batch.shape, batch.strides, batch.flags.writeable
    if isinstance(batch, torch.Tensor):
        return torch.Tensor, batch.dtype, batch.shape, batch.stride()
    return type(batch), repr(batch)


class Given(Dataset):
    def __init__(self, batch: Any) -> None:
        self.batch = batch

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        return self.batch


class Stream(IterableDataset):
    def __iter__(self) -> Iterator[Any]:
        yield from [BIG, BIG + 1]


def alone(batch: Any) -> Any:
    return batch


@pytest.mark.parametrize("what", BATCHES)
def test_a_packed_batch_arrives_as_it_would_have(what: str) -> None:
    batch = BATCHES[what]
    plain, arrived = sent(batch), sent(packed(batch))

    assert kinds(arrived) == kinds(plain)
    assert digest(arrived) == digest(plain) is not None


def test_arrays_and_tensors_that_arrived_can_be_written_each_by_itself() -> None:
    arrived = sent(packed([BIG, BIG + 1, *TENSORS]))

    arrived[0][:] = 0
    arrived[2].fill_(9)

    assert arrived[1][0, 0] == 1
    assert arrived[3].tolist() == [1.0] * 7


def test_the_same_array_twice_is_one_array_there_too() -> None:
    arrived = sent(packed([BIG, BIG, TENSORS, TENSORS]))

    assert arrived[0] is arrived[1]
    assert arrived[2] is arrived[3]


@pytest.mark.parametrize(
    "batch",
    [
        [torch.ones(3)] * 20,
        [*torch.ones(20, 4).expand(20, 4)][:3],
        [base[start : start + 4] for base in [torch.arange(40)] for start in range(12)],
        [torch.ones(2, requires_grad=True) for _ in range(12)],
        np.array([None] * 200_000),
        [0.5] * 200_000,
        BIG[1:],
        "text",
    ],
)
def test_what_would_not_be_the_same_or_not_pay_is_left_alone(batch: Any) -> None:
    assert packed(batch) is batch


def test_a_list_that_holds_itself_is_no_trap() -> None:
    batch: list[Any] = [BIG]
    batch.append(batch)

    assert len(packed(batch)) == 2


def test_the_size_of_a_packed_batch_can_be_asked_for() -> None:
    assert payload_bytes(packed([BIG])) == BIG.nbytes


@pytest.mark.parametrize(
    ("what", "persistent"), [("an array", False), ("many tensors", False), ("named", True)]
)
def test_a_loader_with_workers_gives_the_same(what: str, persistent: bool) -> None:
    make = partial(
        DataLoader,
        Given(BATCHES[what]),
        None,
        num_workers=1,
        collate_fn=alone,
        persistent_workers=persistent,
    )
    without = epochs(make)
    with made(Packing) as told, watched():
        assert epochs(make) == without

    assert {what for what, _ in told.done} == {
        "batches of workers are sent in one piece of shared memory"
    }
    assert len(told.done) == 1


def test_a_stream_gives_the_same() -> None:
    make = partial(DataLoader, Stream(), None, num_workers=1, collate_fn=alone)
    without = epochs(make)
    with made(Packing) as told:
        assert epochs(make) == without

    assert len(told.done) == 1


def test_without_workers_and_without_arrays_it_says_so() -> None:
    with made(Packing) as told:
        list(DataLoader(Given(torch.ones(3)), 1))
        list(DataLoader(Given(torch.ones(3)), 1, num_workers=1))

    assert "no workers" in told.why
    assert "neither arrays" in told.why
