"""Other settings for the loader that feeds training: workers, prefetching, pinned memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, ClassVar

from stepscope.collect.chain import hiding
from stepscope.collect.imports import when_imported
from stepscope.tune.injection import Injection, Site
from stepscope.tune.loading.feeds import note_sites, site_of
from stepscope.tune.loading.randomness import Generators
from stepscope.tune.loading.settings import changed, put, undo, why_not, words

__all__ = ["Loader"]

Settings = dict[str, Any]
_STATEFUL = "torchdata.stateful_dataloader"
_DONE = "_stepscope_settled"  # attribute of a loader that was looked at


class Loader(Injection):
    """settings: some of num_workers, prefetch_factor, persistent_workers, pin_memory, in_order,
    multiprocessing_context.

    "site": {"file", "line"}: the call of DataLoader that is meant. Without it, every loader that is
    iterated with gradients on: evaluation is left as it is. "iterable": true: a stream may be
    shared out anew among workers.

    What a dataset draws at random, it draws in its workers, from seeds of their own.
    """

    name: ClassVar[str] = "loader"

    def install(self) -> None:
        from torch.utils.data import DataLoader

        note_sites(self.patches)
        self.patches.replace(DataLoader, "__iter__", self._iterating)
        when_imported(_STATEFUL, self._pass_by_stateful, self.told.failed)

    def _iterating(self, iterate: Callable[..., Any]) -> Callable[..., Any]:
        def iterate_it(loader: Any) -> Any:
            made = None
            try:
                made = self._change(loader)
            except Exception as error:  # noqa: BLE001 - the border with the user's program
                self.told.failed("changing a loader", error)
            return iterate(loader) if made is None else self._first(iterate, loader, *made)

        return hiding(iterate, iterate_it)

    def _change(self, loader: Any) -> tuple[Settings, Settings] | None:
        """What was changed, and what puts the loader as it was; None: nothing was."""
        if _DONE in vars(loader) or not self._is_meant(loader):
            return None
        vars(loader)[_DONE] = True
        wanted = changed(loader, self.settings)
        site = site_of(loader)
        if not wanted:
            self.told.refused("the loader has these settings already", site)
            return None
        reason = why_not(loader, wanted, iterable=bool(self.settings.get("iterable")))
        if not reason and loader._iterator is not None:
            reason = "its workers had been started before"
        if reason:
            self.told.refused(f"DataLoader({words(wanted)}): {reason}", site)
            return None
        return wanted, put(loader, wanted)

    def _first(
        self, iterate: Callable[..., Any], loader: Any, wanted: Settings, before: Settings
    ) -> Any:
        """The first iteration of a changed loader, or one as it was where that cannot begin."""
        generators = Generators(loader)
        try:
            iterator = iterate(loader)
        except Exception as error:  # noqa: BLE001 - whatever keeps workers from starting
            undo(loader, before)
            generators.put_back()
            why = f"DataLoader({words(wanted)}) could not start: {type(error).__name__}: {error}"
            self.told.refused(why[:300], site_of(loader))
            return iterate(loader)
        self.told.applied(f"DataLoader({words(wanted)})", site_of(loader))
        return iterator

    def _is_meant(self, loader: Any) -> bool:
        import torch

        meant = self.settings.get("site")
        if not meant:
            return bool(torch.is_grad_enabled())
        site: Site | None = site_of(loader)
        return (
            site is not None
            and site.line == meant["line"]
            and os.path.realpath(site.file) == os.path.realpath(meant["file"])
        )

    def _pass_by_stateful(self, module: Any) -> None:
        """torchdata's loader is one of its own, in all but its name."""

        def iterating(iterate: Callable[..., Any]) -> Callable[..., Any]:
            def iterate_it(loader: Any) -> Any:
                self.told.refused("a StatefulDataLoader counts its workers' batches: leave it be")
                return iterate(loader)

            return hiding(iterate, iterate_it)

        self.patches.replace(module.StatefulDataLoader, "__iter__", iterating)
