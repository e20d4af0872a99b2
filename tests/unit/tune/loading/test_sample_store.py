"""Samples as plain bytes, shared by processes, within a limit."""

from __future__ import annotations

import multiprocessing
import pickle
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from stepscope.tune.loading.records import MARKER, NotKeptError, decoded, encoded
from stepscope.tune.loading.sample_store import MISSING, SampleStore


class Named(NamedTuple):
    x: int


SAMPLES: dict[str, Any] = {
    "tensors": [
        torch.ones(2, 3, dtype=dtype)
        for dtype in (torch.float32, torch.bfloat16, torch.bool, torch.int64, torch.complex64)
    ],
    "shapes": (
        torch.tensor(1.5),
        torch.empty(0, 3),
        torch.ones(3, 4).t(),
        torch.ones(2, 8)[:, ::2],
    ),
    "channels last": torch.randn(1, 3, 4, 4).contiguous(memory_format=torch.channels_last),
    "arrays": {"a": np.arange(6).reshape(2, 3), "b": np.asfortranarray(np.ones((2, 3), "f2"))},
    "words": ("", "é\ud800", b"\0\1", np.array(["x", "yz"]), np.datetime64("2020-01-01")),
    "numbers": [1, -(1 << 63), 0.1, float("inf"), -0.0, True, None, np.float32(2), np.bool_(False)],
    "nested": {"a": [(), [], {}, {1: ({"b": torch.ones(1)},)}]},
    "a marker": (MARKER, 3),
}


def described(value: Any) -> Any:
    if isinstance(value, dict):
        return dict, [(key, described(one)) for key, one in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value), [described(one) for one in value]
    if isinstance(value, torch.Tensor):
        return value.dtype, tuple(value.shape), value.stride(), str(value.tolist())
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, value.strides, str(value.tolist())
    return type(value), repr(value)


@pytest.mark.parametrize("what", SAMPLES)
@pytest.mark.parametrize("copied", [False, True])
def test_a_sample_comes_back_as_it_was(what: str, copied: bool) -> None:
    record = memoryview(bytearray(b"".join(encoded(SAMPLES[what]))))
    for _ in range(2):  # its form is known the second time
        found = decoded(record, copied=copied)
        wanted = SAMPLES[what]
        if what == "shapes":  # a tensor with gaps is kept without them, as a clone has none
            wanted = tuple(one.clone() for one in wanted)
        assert described(found) == described(wanted)


@pytest.mark.parametrize(
    "sample",
    [
        Named(1),
        OrderedDict(a=1),
        {1.5: 2},
        {1, 2},
        1 << 70,
        object(),
        np.array([None]),
        np.zeros(2, dtype=[("a", "f4")]),
        torch.ones(2, requires_grad=True),
        torch.ones(2).to_sparse(),
        torch.nn.Parameter(torch.ones(1)),
    ],
)
def test_what_is_not_plain_data_is_refused(sample: Any) -> None:
    with pytest.raises(NotKeptError):
        encoded([sample])


@pytest.mark.parametrize("where", ["memory", "disk"])
def test_a_store_keeps_what_fits_and_counts_the_rest(where: str) -> None:
    store = SampleStore(5, 4_096, where)
    kept = [store.put(number, torch.full((256,), float(number))) for number in range(5)]

    assert kept == [True, True, True, False, False]
    assert (store.kept, store.not_kept) == (3, 2)
    assert store.get(2).tolist() == [2.0] * 256
    assert store.get(3) is MISSING
    assert store.used_bytes <= 4_096


def test_a_store_that_is_closed_to_more_gives_back_what_is_free() -> None:
    store = SampleStore(2, 1 << 20)
    store.put(0, "word")

    free = store.close_to_more()

    assert free == (1 << 20) - store.used_bytes
    assert not store.put(1, "word")
    assert store.get(0) == "word"


def test_a_copy_can_be_written_and_the_store_stays_as_it_was() -> None:
    store = SampleStore(1, 4_096)
    store.put(0, (torch.ones(3), np.ones(3)))

    tensor, array = store.get(0)
    tensor.zero_()
    array[:] = 0

    assert store.get(0)[0].tolist() == store.get(0)[1].tolist() == [1.0] * 3


def test_another_process_sees_what_is_put_and_puts_more() -> None:
    store = SampleStore(2, 4_096)
    store.put(0, 17)

    def work() -> None:
        found = store.get(0)
        store.put(1, found + 1)

    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join()

    assert store.get(1) == 18
    # As a spawned worker gets it:
    assert pickle.loads(pickle.dumps(store)).get(1) == 18
