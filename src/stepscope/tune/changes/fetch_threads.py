"""Samples that wait for the network or a disk are fetched several at once, by threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from typing import Any, ClassVar

from stepscope.collect.digest import digest
from stepscope.tune.injection import Injection
from stepscope.tune.loading.feeds import Feed, follow
from stepscope.tune.loading.randomness import Generators
from stepscope.tune.loading.stages import each_alone, open_stages
from stepscope.tune.loading.state import changes_itself, fingerprint, held_open
from stepscope.tune.loading.verdict import Verdict

__all__ = ["FetchThreads"]

_THREADS = 8  # where none are given


class FetchThreads(Injection):
    """settings: "threads", of each process that fetches.

    The samples of a batch come in their order. A dataset that draws random numbers, changes itself
    or talks over one connection is left as it is: its threads would get in each other's way. The
    first batch is fetched in both ways, and compared.
    """

    name: ClassVar[str] = "fetch-threads"

    def install(self) -> None:
        follow(self, self._opened)

    def _opened(self, fetcher: Any, feed: Feed) -> None:
        verdict = Verdict(self.told, feed)
        if verdict.refused_for(lambda: _why_not(fetcher)):
            return
        stages = open_stages(fetcher)
        threads = max(1, int(self.settings.get("threads", _THREADS)))
        stages.get_all = _Fetching(fetcher.dataset, stages.sample, verdict, threads)


def _why_not(fetcher: Any) -> str:
    from torch.utils.data._utils.fetch import _MapDatasetFetcher

    if type(fetcher) is not _MapDatasetFetcher or not fetcher.auto_collation:
        return "its samples are asked for one by one"
    if not each_alone(fetcher.dataset):
        return "the dataset makes whole batches itself"
    held = held_open(fetcher.dataset)
    return f"threads would share {held}" if held else ""


class _Fetching:
    """All samples of a batch."""

    def __init__(
        self, dataset: Any, sample: Callable[[Any], Any], verdict: Verdict, threads: int
    ) -> None:
        self._dataset, self._sample, self._verdict = dataset, sample, verdict
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None  # ends with this iteration

    def __call__(self, index: Any) -> list[Any]:
        if self._verdict.applied and isinstance(index, (list, tuple)):
            return self._at_once([*index[:]])
        if self._verdict.refused:
            return [self._sample(one) for one in index]
        return self._both_ways(index)

    def _both_ways(self, index: Any) -> list[Any]:
        generators, marks = Generators(self._dataset), fingerprint(self._dataset)
        samples = [self._sample(one) for one in index]
        reason = self._in_the_way(generators, marks)
        if not reason and not self._is_same(index, samples):
            reason = "fetched by threads, a batch is not the same"
        if reason:
            self._verdict.refuse(reason)
        else:
            self._verdict.apply(f"{self._threads} samples are fetched at once")
        return samples

    def _in_the_way(self, generators: Generators, marks: dict[str, Any]) -> str:
        if generators.drawn():
            return "its samples are drawn at random, in the order in which they are made"
        held = held_open(self._dataset)
        if held:
            return f"threads would share {held}"
        changed = changes_itself(marks, self._dataset)
        return f"making a sample changes {changed!r} of the dataset" if changed else ""

    def _is_same(self, index: Any, samples: list[Any]) -> bool:
        try:
            again = self._at_once([*index[:]])
        except Exception:  # noqa: BLE001 - the user's code, asked what it was not made for
            return False
        wanted = digest(samples)
        return wanted is not None and digest(again) == wanted

    def _at_once(self, indices: list[Any]) -> list[Any]:
        import torch

        if self._pool is None:
            # Each thread would take as many of its own for an operator as there are cores. They run
            # the program's code: their name does not begin with ours, so stacks show them.
            self._pool = ThreadPoolExecutor(
                self._threads, "fetch-samples", torch.set_num_threads, (torch.get_num_threads(),)
            )
        modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        contexts = [copy_context() for _ in indices]
        return list(self._pool.map(self._in_mode, indices, contexts, [modes] * len(indices)))

    def _in_mode(self, index: Any, context: Context, modes: tuple[bool, bool]) -> Any:
        """One sample, as if the thread were the one that asked for it."""
        import torch

        grad, inference = modes
        with torch.inference_mode(inference), torch.set_grad_enabled(grad):
            return context.run(self._sample, index)
