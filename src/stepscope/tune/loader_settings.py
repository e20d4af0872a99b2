"""Settings of a loader that alter neither its samples nor their order, and how far they may go."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Limits", "LoaderSettings"]


class LoaderSettings(NamedTuple):
    """Arguments of a DataLoader that alter neither its samples nor their order."""

    num_workers: int
    prefetch_factor: int | None = None  # None: there are no workers
    persistent_workers: bool = False
    pin_memory: bool = False

    @property
    def size(self) -> tuple[int, int]:
        """What it takes of the machine: of two that are as fast, the smaller one is chosen."""
        return self.num_workers, self.prefetch_factor or 0

    def arguments(self) -> dict[str, Any]:
        """As DataLoader takes them."""
        return self._asdict()

    def __str__(self) -> str:
        words = [f"num_workers={self.num_workers}"]
        if self.num_workers:
            words += [f"prefetch_factor={self.prefetch_factor}"]
        words += [name for name in ("persistent_workers", "pin_memory") if getattr(self, name)]
        return ", ".join(words)


class Limits(NamedTuple):
    """What may be tried. Bytes of 0: not known, and so not limited."""

    most_workers: int
    prefetch_factors: tuple[int, ...] = (2, 4, 8)
    persistent_workers: bool = True
    pin_memory: bool = False
    memory_bytes: float = 0.0  # that workers and the batches in them may take together
    worker_bytes: float = 0.0
    batch_bytes: float = 0.0

    def fits(self, settings: LoaderSettings) -> bool:
        waiting_bytes = (settings.prefetch_factor or 0) * self.batch_bytes
        taken_bytes = settings.num_workers * (self.worker_bytes + waiting_bytes)
        return not self.memory_bytes or taken_bytes <= self.memory_bytes

    def settings(self, workers: int, prefetch: int | None = None) -> LoaderSettings:
        if not workers:
            return LoaderSettings(0, pin_memory=self.pin_memory)
        ahead = prefetch or self.prefetch_factors[0]
        return LoaderSettings(workers, ahead, self.persistent_workers, self.pin_memory)

    def grid(self) -> list[LoaderSettings]:
        """All that could be measured, the smallest first."""
        made = [self.settings(0)]
        for workers in range(1, self.most_workers + 1):
            made += [self.settings(workers, ahead) for ahead in self.prefetch_factors]
        return [one for one in made if self.fits(one)]
