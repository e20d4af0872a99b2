"""A loader that is looked at by itself: made, or copied, and iterated without a trace in it."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["batch_samples", "make_loader", "settings_of", "settle", "undisturbed"]


def make_loader(dataset: Any, batch_size: int, workers: int) -> Any:
    """As the source document makes them; `prefetch_factor` and `shuffle` only where torch allows
    them (not without workers; not for an IterableDataset)."""
    import torch
    from torch.utils.data import DataLoader, IterableDataset

    more = {"prefetch_factor": 2, "persistent_workers": True} if workers else {}
    return DataLoader(
        dataset,
        batch_size=batch_size,
        shuffle=not isinstance(dataset, IterableDataset),
        num_workers=workers,
        pin_memory=torch.cuda.is_available(),
        **more,
    )


def settings_of(loader: Any) -> dict[str, Any]:
    """How a DataLoader is set up; {}: it is none."""
    if not _is_loader(loader):
        return {}
    from stepscope.collect.loader import loader_settings

    return loader_settings(loader)


def _is_loader(loader: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(loader, torch.utils.data.DataLoader)


@contextmanager
def undisturbed(loader: Any) -> Iterator[Any]:
    """A loader to iterate in its place. What that draws from random generators is put back: the
    program goes on with the numbers that it would have had. A loader that keeps its workers keeps
    them for the program: the one given here has workers of its own."""
    put_back = [*_global_randomness(), *_generators(loader)]
    mine = loader
    if _is_loader(loader):
        mine = copy.copy(loader)
        mine.__dict__["_iterator"] = None
    try:
        yield mine
    finally:
        for put in put_back:
            put()


def _global_randomness() -> Iterator[Callable[[], None]]:
    import random

    state = random.getstate()
    yield lambda: random.setstate(state)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy_state = numpy.random.get_state()
        yield lambda: numpy.random.set_state(numpy_state)
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch_state = torch.get_rng_state()
        yield lambda: torch.set_rng_state(torch_state)
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            cuda_states = torch.cuda.get_rng_state_all()
            yield lambda: torch.cuda.set_rng_state_all(cuda_states)


def _generators(loader: Any) -> Iterator[Callable[[], None]]:
    """Those that the loader and its samplers were given."""
    batches = getattr(loader, "batch_sampler", None)
    owners = (loader, getattr(loader, "sampler", None), batches, getattr(batches, "sampler", None))
    found = {id(g): g for one in owners if (g := getattr(one, "generator", None)) is not None}
    for generator in found.values():
        if hasattr(generator, "get_state"):
            yield _put_back(generator, generator.get_state())


def _put_back(generator: Any, state: Any) -> Callable[[], None]:
    return lambda: generator.set_state(state)


def batch_samples(batch: Any) -> int | None:
    """How many samples a batch holds: the first dimension of the first tensor or array in it."""
    shape = getattr(batch, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else None
    if isinstance(batch, dict):
        batch = list(batch.values())
    if isinstance(batch, list | tuple):
        counts = (batch_samples(one) for one in batch if not isinstance(one, str | int | float))
        return next((one for one in counts if one is not None), None)
    return None


def settle() -> None:
    """Waits until the GPU has done what it was told: only then is a time a time."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()
