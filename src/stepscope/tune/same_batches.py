"""Whether another loader gives the same batches, and whether workers may read a dataset."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

from stepscope.collect.digest import digest
from stepscope.collect.loading import undisturbed
from stepscope.tune.loading.randomness import Generators
from stepscope.tune.loading.state import changes_itself, fingerprint

__all__ = ["Same", "compare_batches", "shut_down", "why_no_workers"]

_BATCHES = 3


class Same(NamedTuple):
    """`why`: what was compared, or what is different."""

    are_same: bool
    why: str


def compare_batches(loader: Any, other: Any) -> Same:
    """The first batches of both, from the same random numbers. Samples that are drawn may differ:
    workers have seeds of their own, as torch gives them."""
    ours, theirs = _digests(loader), _digests(other)
    if None in ours or None in theirs:
        return Same(False, "its batches cannot be compared")
    if ours == theirs:
        return Same(True, f"the first {len(ours)} batches are the same to the bit")
    if _draws(loader):
        return Same(True, "the same samples; what is random in them is drawn in the workers")
    return Same(False, "the batches were others with these settings")


def _digests(loader: Any) -> list[bytes | None]:
    with undisturbed(loader) as mine:
        iterator = iter(mine)
        found = [digest(batch) for batch in itertools.islice(iterator, _BATCHES)]
        shut_down(iterator)
    return found


def shut_down(iterator: Any) -> None:
    """Workers that keep on are ended: nobody else has this iterator."""
    end = getattr(iterator, "_shutdown_workers", None)
    if end is not None:
        end()


def _draws(loader: Any) -> bool:
    """Whether making a batch in this process takes random numbers."""
    with undisturbed(loader):
        batched = loader.batch_sampler is not None
        indices = next(iter(loader.batch_sampler if batched else loader.sampler))
        generators = Generators(loader.dataset)
        try:
            for index in indices if batched else [indices]:
                loader.dataset[index]
            return generators.drawn()
        finally:
            generators.put_back()


def why_no_workers(dataset: Any, read: Callable[[], object]) -> str:
    """What workers would get wrong; "": nothing that reading some samples here showed. `read` puts
    back the random numbers of the program by itself."""
    before, generators = fingerprint(dataset), Generators(dataset)
    read()
    if generators.drawn():
        generators.put_back()
        return (
            "The dataset draws from a random generator of its own: every worker would have a copy"
            " of it, and draw the same."
        )
    changed = changes_itself(before, dataset)
    if changed:
        return (
            f"Reading it changes the dataset ({changed}): workers would change copies of it, and"
            " lose them."
        )
    return ""
