"""Larger batches for training."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sized
from typing import Any, ClassVar

from stepscope.collect.chain import hiding
from stepscope.tune.injection import Injection, users_site

__all__ = ["Batch"]


class Batch(Injection):
    """settings: {"factor": k}: k times as many samples a batch from loaders that feed training.

    Changes results: fewer, larger steps. A loader feeds training where it shuffles, draws with a
    sampler or reads a stream; others evaluate.
    """

    name: ClassVar[str] = "batch"

    def install(self) -> None:
        from torch.utils.data import DataLoader

        self._factor = max(1, int(self.settings.get("factor", 1)))
        accepted = inspect.signature(DataLoader.__init__)
        self.patches.replace(DataLoader, "__init__", lambda f: self._making(f, accepted))

    def _making(
        self, make: Callable[..., None], accepted: inspect.Signature
    ) -> Callable[..., None]:
        def init(*args: Any, **kwargs: Any) -> None:
            try:
                given = accepted.bind(*args, **kwargs)
            except TypeError:
                return make(*args, **kwargs)  # which says what is wrong
            size = self._size(given.arguments)
            if size is None:
                return make(*args, **kwargs)
            given.arguments["batch_size"] = size
            self.told.applied(f"DataLoader(batch_size={size})", users_site())
            return make(*given.args, **given.kwargs)

        return hiding(make, init)

    def _size(self, given: dict[str, Any]) -> int | None:
        """None: it stays."""
        from torch.utils.data import IterableDataset

        dataset, size = given.get("dataset"), given.get("batch_size", 1)
        is_stream = isinstance(dataset, IterableDataset)
        trains = bool(given.get("shuffle")) or given.get("sampler") is not None or is_stream
        if given.get("batch_sampler") is not None or type(size) is not int or not trains:
            return None
        larger = size * self._factor
        if isinstance(dataset, Sized) and not is_stream and larger > len(dataset):
            self.told.refused(
                f"{larger} samples a batch are more than the dataset has.", users_site()
            )
            return None
        return larger
