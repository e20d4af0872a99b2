"""What can be changed about a loader without an edit, and what each change is expected to gain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from stepscope.advise.gain import between
from stepscope.advise.loader import workers_gain
from stepscope.advise.loader_formula import MOST_WORKERS, WORTH_IT
from stepscope.advise.measured import measured_loader
from stepscope.advise.simulate import Loader, near_best, simulated
from stepscope.model.change import Change
from stepscope.model.finding import Finding

__all__ = ["making_batches", "sending", "skewed", "starting_workers", "transferring"]

_NEARLY_AS_GOOD: Final = 0.7  # of the best setting by the model: worth a try beside it
_SHORT_SAMPLE_MS: Final = 0.1  # most of such a sample is the call that makes it
_FETCH_THREADS: Final = 4
# What is left of the cost, at most and at least: taken from the catalogue's own measurements.
_BATCHED: Final = (0.7, 0.95)
_CACHED: Final = (0.85, 1.0)
_PACKED: Final = (0.6, 0.95)


def making_batches(finding: Finding) -> Iterator[Change]:
    """Workers, and batches that cost less. Their order does not matter: the gains do."""
    yield from _workers(finding)
    if finding.measures.get("iterable"):
        return
    if _is_short(finding):
        yield Change("batched", "Index the whole batch at once", {}, _all_of_the_wait(finding))
    yield from _cached(finding)
    if finding.kind == "input-cpu" and not _is_short(finding):
        yield Change("vectorise", "Transform the samples of a batch at once")
    if finding.kind in ("input-io", "input-network"):
        yield Change(
            "fetch-threads",
            f"Fetch {_FETCH_THREADS} samples at once",
            {"threads": _FETCH_THREADS},
            expected_speedup=between(finding, 0.0, 1.0 - 1.0 / _FETCH_THREADS),
            alters="threads",
        )


def _all_of_the_wait(finding: Finding) -> tuple[float, float] | None:
    """Neither samples nor putting them together are left: other findings about the wait, too."""
    m = finding.measures
    if not m.get("step_ms") or "input_ms" not in m:
        return None
    waited = min(1.0, m["input_ms"] / m["step_ms"])
    return 1.0 / (1.0 - waited * _BATCHED[0]), 1.0 / (1.0 - waited * _BATCHED[1])


def _is_short(finding: Finding) -> bool:
    sample_ms = finding.measures.get("sample_p50_ms")
    return sample_ms is not None and sample_ms <= _SHORT_SAMPLE_MS


def _cached(finding: Finding) -> Iterator[Change]:
    """Pays from the second pass over the data on."""
    passes = finding.measures.get("passes", 1.0)
    if passes < 2:
        return
    again = (passes - 1.0) / passes
    yield Change(
        "cache",
        "Make each sample once and keep it",
        {"where": "memory"},
        expected_speedup=between(finding, _CACHED[0] * again, _CACHED[1] * again),
    )


def _workers(finding: Finding) -> Iterator[Change]:
    m = finding.measures
    loader = measured_loader(finding)
    if loader is None or "workers" not in m:
        if m.get("workers") == 0.0:
            yield _loader(finding, max(1, int(m.get("cpu_count", 2.0) / m.get("ranks", 1.0))), None)
        return
    now = int(m["workers"])
    limit = max(2, int(2 * loader.cores)) if finding.kind == "input-cpu" else MOST_WORKERS
    rates = [simulated(loader, workers) for workers in range(limit + 1)]
    for workers in _promising(rates, now):
        expected = workers_gain(finding, loader, loader, workers)
        if expected[1] >= WORTH_IT:
            yield _loader(finding, workers, expected)


def _promising(rates: list[float], now: int) -> list[int]:
    """The best by the model; and half as many, or one more where that is what there is now: the
    model does not know what starting them and sharing caches cost."""
    best = near_best(rates)
    half = best // 2
    other = half if half not in (0, now) else min(best + 1, len(rates) - 1)
    return [
        workers
        for workers in dict.fromkeys((best, other))
        if workers != now and rates[workers] >= _NEARLY_AS_GOOD * rates[best]
    ]


def _loader(
    finding: Finding, workers: int, expected: tuple[float, float] | None, **more: Any
) -> Change:
    settings: dict[str, Any] = {"num_workers": workers}
    if workers:
        settings["persistent_workers"] = True
    alters = "" if more.get("in_order", True) else "order"
    if finding.measures.get("iterable"):
        settings["iterable"] = True
        alters = "sharding"
    return Change(
        "loader",
        f"Let {workers} worker{'s' * (workers != 1)} prepare batches"
        if workers
        else "Make batches in the training process",
        settings | more,
        expected_speedup=expected,
        alters=alters,
    )


def sending(finding: Finding) -> Iterator[Change]:
    """Batches that come from workers, and dearly."""
    yield Change(
        "packing",
        "Send batches through shared memory, in one piece",
        expected_speedup=between(finding, *_PACKED),
    )
    yield from _workers(finding)


def starting_workers(finding: Finding) -> Iterator[Change]:
    """All starts but the first are saved: of a long training all, so the first is not counted."""
    passes = finding.measures.get("iterations", 1.0)
    if finding.measures.get("persistent_workers") or passes < 2:
        return
    share = finding.share
    speedup = (1.0 - share / passes) / (1.0 - share) if share < 1.0 else None
    yield Change(
        "loader",
        "Keep the workers alive between passes",
        {"persistent_workers": True},
        expected_speedup=None if speedup is None else (speedup, speedup),
    )
    yield from _workers(finding)


def skewed(finding: Finding) -> Iterator[Change]:
    """A few slow samples: more batches ahead of them, or past them."""
    loader, workers = measured_loader(finding), int(finding.measures.get("workers", 0.0))
    if loader is None or not workers:
        yield from _workers(finding)
        return
    ahead = 4 * loader.prefetch
    yield from _further_ahead(finding, loader, workers, ahead)
    yield _loader(finding, workers, None, prefetch_factor=ahead, in_order=False)
    yield from _workers(finding)


def _further_ahead(finding: Finding, loader: Loader, workers: int, ahead: int) -> Iterator[Change]:
    expected = workers_gain(finding, loader, replace(loader, prefetch=ahead), workers)
    if expected[1] >= WORTH_IT:
        yield _loader(finding, workers, expected, prefetch_factor=ahead)


def transferring(finding: Finding) -> Iterator[Change]:
    if finding.measures.get("pin_memory") != 1.0:
        yield Change(
            "loader",
            "Have batches in pinned memory",
            {"pin_memory": True},
            expected_speedup=between(finding, 0.0),
        )
    yield Change(
        "non-blocking",
        "Copy while the device computes",
        expected_speedup=between(finding, 0.0),
    )
