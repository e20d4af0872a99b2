"""The bounded cache by itself: what the engine's tests cannot make happen."""

from __future__ import annotations

import threading

import torch

from stepscope.checkpointing.cache import RecomputeCache, saved_by


class Call:
    """Anything that can be held weakly."""


def test_storages_are_counted_once_and_without_what_lives_anyway() -> None:
    weight, given, made = torch.zeros(10), torch.zeros(20), torch.zeros(30)
    entry = saved_by([made, made[:5], made.view(5, 6), given[:2], weight], [weight], [given])
    assert entry.size_bytes == 120


def test_a_tensor_that_was_changed_in_place_is_no_answer() -> None:
    cache, call, tensor = RecomputeCache(1000), Call(), torch.zeros(10)
    cache.put(call, saved_by([tensor], [], []))
    assert cache.get(call) is not None
    tensor.add_(1)
    assert cache.get(call) is None
    assert cache.info() == (1, 1, 0, 0, 0, 0)


def test_putting_again_replaces() -> None:
    cache, call = RecomputeCache(1000), Call()
    for size in (10, 20):
        cache.put(call, saved_by([torch.zeros(size)], [], []))
    assert cache.info()[2:] == (80, 1, 0, 0)


def test_what_was_used_last_stays() -> None:
    cache, calls = RecomputeCache(80), [Call(), Call(), Call()]
    for call in calls[:2]:
        cache.put(call, saved_by([torch.zeros(10)], [], []))
    cache.get(calls[0])
    cache.put(calls[2], saved_by([torch.zeros(10)], [], []))
    assert [cache.get(call) is not None for call in calls] == [True, False, True]


def test_many_threads_leave_the_sums_right() -> None:
    cache = RecomputeCache(400)

    def work() -> None:
        for _ in range(200):
            call = Call()
            cache.put(call, saved_by([torch.zeros(10)], [], []))
            cache.get(call)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    info = cache.info()
    assert info.hits + info.misses == 800
    assert (info.bytes, info.entries) == (0, 0)  # all calls are gone
