"""What the program gets from its DataLoaders → `input.iter` and `input.next` spans, and a mark that
says how each loader is set up and where its dataset's code lies."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from stepscope.collect.chain import spanned
from stepscope.collect.hooking import HookingCollector
from stepscope.collect.source import source_of_dataset
from stepscope.model import names
from stepscope.record.recorder import Recorder

__all__ = ["LoaderCollector", "loader_settings"]


class LoaderCollector(HookingCollector):
    """Spans around `iter(loader)` and `next(iterator)`."""

    name = "loader"

    def _install(self, recorder: Recorder) -> None:
        import torch
        from torch.utils.data import dataloader

        compiling = torch.compiler.is_dynamo_compiling
        self._patches.replace(
            dataloader._BaseDataLoaderIter,
            "__next__",
            lambda f: spanned(recorder, names.INPUT_NEXT, f, compiling=compiling, arg=_id),
        )
        self._patches.replace(
            dataloader.DataLoader,
            "__iter__",
            lambda f: spanned(
                recorder,
                names.INPUT_ITER,
                f,
                compiling=compiling,
                first=self._first,
                outcome=_iterator_of(recorder),
            ),
        )


def _iterator_of(recorder: Recorder) -> Callable[..., int]:
    """The number of the iterator that was made, after a mark about its loader."""
    loader_mark = recorder.intern(names.LOADER)

    def iterator_of(iterator: Any, args: tuple[Any, ...], _: Any) -> int:
        text = json.dumps(loader_settings(args[0]), default=str)
        recorder.mark(loader_mark, id(iterator), recorder.intern(text))
        return id(iterator)

    return iterator_of


def loader_settings(loader: Any) -> dict[str, Any]:
    """How a loader is set up; `file`, `line` and `function` say where a sample is made."""
    from torch.utils.data import IterableDataset

    context = getattr(loader, "multiprocessing_context", None)
    start_method = getattr(context, "get_start_method", None)
    sampler = getattr(loader, "batch_sampler", None)
    return {
        "workers": loader.num_workers,
        "batch_size": loader.batch_size or getattr(sampler, "batch_size", None),
        "prefetch_factor": loader.prefetch_factor,
        "persistent_workers": loader.persistent_workers,
        "pin_memory": loader.pin_memory,
        "multiprocessing_context": start_method() if start_method else None,
        "iterable": isinstance(loader.dataset, IterableDataset),
        **source_of_dataset(loader.dataset),
    }


def _id(iterator: object) -> int:
    return id(iterator)
