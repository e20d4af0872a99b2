"""Energy and carbon of operations: the counters, what they say, and which grid it came from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from stepscope.analyze.carbon import grams, grid_intensity
from stepscope.analyze.energy import EnergyFold
from stepscope.analyze.operations import OperationUse
from stepscope.collect.energy import find_energy
from stepscope.model import names
from stepscope.model.energy import EnergyUse
from stepscope.model.event import Batch
from stepscope.model.metrics import PerformanceMetrics
from stepscope.model.process import ProcessInfo
from stepscope.session.inside import Inside
from stepscope.session.wishes import Wishes

__all__ = ["EnergyMeter"]


class EnergyMeter:
    """Follows the counters of energy of the machine from when it is made."""

    def __init__(self, session: Inside, wishes: Wishes) -> None:
        self._wishes = wishes
        self._intensity = grid_intensity(wishes.country or "", wishes.grams_per_kwh)
        self._fold = EnergyFold()
        self._source = find_energy()
        session.add_source(self._source)
        session.follow(self)

    def update(self, process: ProcessInfo, batches: Iterable[Batch]) -> None:
        for batch in batches:
            self._fold.update(batch)

    def after_fork(self) -> None:
        """The counters are those of the machine: they go on."""

    def added_to(self, metrics: PerformanceMetrics, use: OperationUse) -> PerformanceMetrics:
        """The metrics with the energy of the time in which the operation ran."""
        parts = [self._fold.get(*one, cpu_watts=self._wishes.cpu_watts) for one in use.stretches]
        known = [part.total_joules for part in parts if part.total_joules is not None]
        if not known or len(known) < len(parts):
            why = parts[0].cpu.note if parts else "It did not run."
            reasons = (f"Energy: {why}", *map(_in_words, self._source.reasons))
            return replace(metrics, energy_method="unavailable", notes=(*metrics.notes, *reasons))
        joules, grid = sum(known), self._intensity
        year = f" ({grid.year})" if grid.year else ""
        return replace(
            metrics,
            energy_joules=joules,
            energy_method=_method(parts),
            carbon_grams=grams(joules, grid),
            carbon_intensity=f"{grid.grams_per_kwh:g} g/kWh, {grid.place}{year}: {grid.source}",
            notes=(*metrics.notes, *_remarks(parts[0])),
        )


_WORDS = {
    names.ENERGY_CPU_JOULES: "Energy of the CPUs",
    names.ENERGY_DRAM_JOULES: "Energy of the memory",
    names.ENERGY_GPU_JOULES: "Energy of the GPUs",
}


def _in_words(reason: str) -> str:
    for name, words in _WORDS.items():
        reason = reason.replace(name, words)
    return f"{reason}."


def _method(parts: list[EnergyUse]) -> str:
    figures = [figure for part in parts for figure in (part.cpu, part.dram, part.gpu)]
    known = [figure for figure in figures if figure.joules is not None]
    models = ", ".join(sorted({figure.model for figure in known}))
    how = "measured" if all(figure.how == "measured" for figure in known) else "estimated"
    return f"{how} ({models})"


def _remarks(part: EnergyUse) -> tuple[str, ...]:
    named = {"CPUs": part.cpu, "memory": part.dram, "GPUs": part.gpu}
    return tuple(
        f"Energy of the {name}: {figure.how}. {figure.note}" for name, figure in named.items()
    )
