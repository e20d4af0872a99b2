"""A loader with other settings: the same samples in the same order, made by other means."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from stepscope.errors import UsageError
from stepscope.tune.loading.same_draws import SameDraws
from stepscope.tune.loading.state import held_open, on_accelerator

__all__ = ["SETTINGS", "changed", "put", "undo", "why_not", "with_settings", "words"]

SETTINGS = (
    "num_workers", "prefetch_factor", "persistent_workers", "pin_memory", "in_order",
    "multiprocessing_context",
)  # fmt: skip
_MAKER = "_get_iterator"  # what `iter(loader)` asks for a new iterator


def with_settings(loader: Any, settings: Mapping[str, Any]) -> Any:
    """A new loader over the same dataset, sampler, collate_fn and generator, with other settings.

    The samples, their order and what is drawn from random generators stay what they were, as far as
    the dataset itself draws nothing (workers have seeds of their own). UsageError: it cannot be.
    """
    wanted = changed(loader, settings)
    reason = why_not(loader, wanted, iterable=bool(settings.get("iterable")))
    if reason:
        raise UsageError(f"The loader cannot be changed: {reason}.")
    new = copy.copy(loader)
    vars(new).pop(_MAKER, None)
    new._iterator = None  # its workers stay with the loader that started them
    put(new, wanted)
    return new


def changed(loader: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that are not the loader's own yet, and those that have to follow from them."""
    wanted = {key: settings[key] for key in SETTINGS if key in settings}
    workers = wanted.get("num_workers", loader.num_workers)
    if not workers:
        wanted |= {"prefetch_factor": None, "persistent_workers": False, "timeout": 0}
        wanted.pop("multiprocessing_context", None)
    elif wanted.get("prefetch_factor", loader.prefetch_factor) is None:
        wanted["prefetch_factor"] = 2  # what torch takes
    return {key: value for key, value in wanted.items() if not _is_so(loader, key, value)}


def _is_so(loader: Any, key: str, value: Any) -> bool:
    found = getattr(loader, key, None)
    if key == "multiprocessing_context" and isinstance(value, str):
        method = getattr(found, "get_start_method", None)
        return method is not None and bool(method() == value)
    return bool(found == value)


def why_not(loader: Any, wanted: Mapping[str, Any], *, iterable: bool = False) -> str:
    """Why these settings are not for this loader; "": they are."""
    from torch.utils.data import IterableDataset

    if wanted.get("pin_memory") and not _has_accelerator():
        return "memory is pinned for an accelerator, and there is none"
    if wanted.get("persistent_workers") is False and wanted.get("num_workers") != 0:
        return "its workers keep what they have, and the program may count on that"
    if "num_workers" not in wanted:
        return ""
    if isinstance(loader.dataset, IterableDataset) and not iterable:
        return "each worker would go through the whole stream, unless the dataset shares it out"
    return _workers_in_the_way(loader, int(wanted["num_workers"]), wanted)


def _workers_in_the_way(loader: Any, workers: int, wanted: Mapping[str, Any]) -> str:
    if workers < 0:
        return f"{workers} workers cannot be"
    if not workers:
        return "its worker_init_fn needs workers" if loader.worker_init_fn is not None else ""
    if loader.num_workers:
        return ""
    if on_accelerator(loader.dataset):
        return "its dataset lies on an accelerator, which workers cannot use"
    held = held_open(loader.dataset) if _forks(loader, wanted) else ""
    return f"workers would share {held}" if held else ""


def _forks(loader: Any, wanted: Mapping[str, Any]) -> bool:
    import multiprocessing

    context = wanted.get("multiprocessing_context") or loader.multiprocessing_context
    method = context if isinstance(context, str) else None
    if method is None and context is not None:
        method = context.get_start_method()
    return (method or multiprocessing.get_start_method()) == "fork"


def _has_accelerator() -> bool:
    import torch

    return bool(torch.accelerator.is_available())


def put(loader: Any, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Change this loader. What comes back puts it as it was (`undo`)."""
    before = dict(vars(loader))
    draws = SameDraws(loader.num_workers, loader.persistent_workers)
    try:
        for key, value in wanted.items():
            if key != "multiprocessing_context":
                # Past DataLoader's own __setattr__, which keeps some from being set.
                object.__setattr__(loader, key, value)
        if "multiprocessing_context" in wanted:
            loader.multiprocessing_context = wanted["multiprocessing_context"]
        vars(loader)[_MAKER] = draws.maker(loader)
    except Exception:
        undo(loader, before)
        raise
    return before


def undo(loader: Any, before: Mapping[str, Any]) -> None:
    own = vars(loader)
    own.clear()
    own.update(before)


def words(wanted: Mapping[str, Any]) -> str:
    """ "num_workers=2, prefetch_factor=4", as it would be written."""
    shown = {key: value for key, value in wanted.items() if key in SETTINGS and value is not None}
    return ", ".join(f"{key}={value!r}" for key, value in shown.items())
