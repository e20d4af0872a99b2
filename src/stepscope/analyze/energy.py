"""Samples of energy and power → what the machine used within some time. None: not measured."""

from __future__ import annotations

from collections.abc import Sequence

from stepscope.analyze.samples import samples
from stepscope.analyze.series import Series
from stepscope.model import names
from stepscope.model.energy import EnergyFigure, EnergyUse
from stepscope.model.event import Batch

__all__ = ["EnergyFold"]

_S = 1_000_000_000
_COUNTERS = (
    names.ENERGY_CPU_JOULES,
    names.ENERGY_DRAM_JOULES,
    names.ENERGY_GPU_JOULES,
    names.HOST_CPU_BUSY_NS,
)
_WANTED = frozenset({*_COUNTERS, names.GPU_POWER_WATTS, names.HOST_CPU_COUNT, names.GPU_BUSY_SHARE})
_COVERED = 0.95  # of the time; a figure for less says so

_WHOLE_MACHINE = "All that ran on the machine is included."
_NOT_COUNTED = "There was no counter that could be read."
_TOO_FAR_APART = "The samples lie too far apart for so short a time."
_NO_GPU = "No GPU was seen."


class EnergyFold:
    """`update` with every batch of whoever sampled the machine; `get` for some time of it."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, int], Series] = {}

    def update(self, batch: Batch) -> None:
        for time_ns, name, arg, value in samples(batch, _WANTED.__contains__):
            series = self._series.get((name, arg))
            if series is None:
                join = _later if name in _COUNTERS else _mean
                series = self._series[name, arg] = Series(join)
            series.update(time_ns, value)

    def get(self, start_ns: int, end_ns: int, cpu_watts: float | None = None) -> EnergyUse:
        """The energy between two moments.

        `cpu_watts`: what the CPUs draw when all of them are busy, for machines whose CPUs do not
        count their energy. Without it their energy is unavailable there: it is never guessed.
        """
        window = _Window(self._series, start_ns, end_ns)
        cpu = window.counted(names.ENERGY_CPU_JOULES, "rapl")
        if cpu.joules is None and cpu_watts is not None:
            cpu = window.cpu_from_watts(cpu_watts)
        dram = window.counted(names.ENERGY_DRAM_JOULES, "rapl")
        return _together(cpu, dram, window.gpus(), has_gpu=bool(window.gpu_indexes()))


class _Window:
    """The series within two moments."""

    def __init__(
        self, series: dict[tuple[str, int], Series], start_ns: int, end_ns: int
    ) -> None:  # fmt: skip
        self._series, self._start, self._end = series, start_ns, end_ns

    def counted(self, name: str, model: str) -> EnergyFigure:
        """Counters of all packages together. One without an answer leaves the whole unknown."""
        counters = [series for (of, _), series in self._series.items() if of == name]
        if not counters:
            return EnergyFigure(None, "unavailable", note=_NOT_COUNTED)
        grown = [one.growth(self._start, self._end, from_zero=False) for one in counters]
        known = [joules for joules in grown if joules is not None]
        if len(known) < len(grown):
            return EnergyFigure(None, "unavailable", note=_TOO_FAR_APART)
        note = f"{_WHOLE_MACHINE}{self._uncovered(counters)}"
        return EnergyFigure(sum(known), "measured", model, note)

    def cpu_from_watts(self, cpu_watts: float) -> EnergyFigure:
        busy = self._series.get((names.HOST_CPU_BUSY_NS, 0))
        count = self._series.get((names.HOST_CPU_COUNT, 0))
        if busy is None or count is None:
            return EnergyFigure(None, "unavailable", note="The use of the CPUs was not sampled.")
        busy_ns = busy.growth(self._start, self._end, from_zero=False)
        cpus = max(count.within(self._start, self._end), default=0.0)
        if busy_ns is None or cpus <= 0 or self._end <= self._start:
            return EnergyFigure(None, "unavailable", note=_TOO_FAR_APART)
        share = min(1.0, busy_ns / cpus / (self._end - self._start))
        joules = cpu_watts * share * (self._end - self._start) / _S
        note = (
            f"{share:.0%} of the CPUs' time × the {cpu_watts:g} W that you gave. {_WHOLE_MACHINE}"
            f" What they draw when idle is not.{self._uncovered([busy])}"
        )
        return EnergyFigure(joules, "estimated", "given-watts-times-busy-share", note)

    def gpu_indexes(self) -> list[int]:
        gpu = (names.ENERGY_GPU_JOULES, names.GPU_POWER_WATTS, names.GPU_BUSY_SHARE)
        return sorted({arg for name, arg in self._series if name in gpu})

    def gpus(self) -> EnergyFigure:
        """All cards together: measured if all of them count, estimated if one has to be."""
        indexes = self.gpu_indexes()
        if not indexes:
            return EnergyFigure(None, "unavailable", note=_NO_GPU)
        cards = {index: self._gpu(index) for index in indexes}
        silent = [index for index, card in cards.items() if card.joules is None]
        if silent:
            known = (f"GPU {i} used {c.joules:.0f} J." for i, c in cards.items() if c.joules)
            why = (f"GPU {index}: {cards[index].note}" for index in silent)
            return EnergyFigure(None, "unavailable", note=" ".join([*why, *known]))
        total = sum(card.joules or 0.0 for card in cards.values())
        estimated = [card for card in cards.values() if card.how == "estimated"]
        chosen = estimated[0] if estimated else cards[indexes[0]]
        return EnergyFigure(total, chosen.how, chosen.model, chosen.note)

    def _gpu(self, index: int) -> EnergyFigure:
        counter = self._series.get((names.ENERGY_GPU_JOULES, index))
        counted = counter.growth(self._start, self._end, False) if counter is not None else None
        if counter is not None and counted is not None:
            note = f"The whole card: {_WHOLE_MACHINE.lower()}{self._uncovered([counter])}"
            return EnergyFigure(counted, "measured", "nvml", note)
        power = self._series.get((names.GPU_POWER_WATTS, index))
        if power is None:
            why = _NOT_COUNTED if counter is None else _TOO_FAR_APART
            return EnergyFigure(None, "unavailable", note=why)
        joules = power.area(self._start, self._end)
        if joules is None:
            return EnergyFigure(None, "unavailable", note=_TOO_FAR_APART)
        note = f"From samples of the power of whole cards.{self._uncovered([power])}"
        return EnergyFigure(joules, "estimated", "power-integral", note)

    def _uncovered(self, series: Sequence[Series]) -> str:
        """What to add to a note when sampling began late or ended early."""
        spans = [one.sampled(self._start, self._end) for one in series]
        length = self._end - self._start
        share = min(last - first for first, last in spans) / length if length > 0 else 0.0
        return "" if share >= _COVERED else f" Sampled for {share:.0%} of the time only."


def _together(
    cpu: EnergyFigure, dram: EnergyFigure, gpu: EnergyFigure, has_gpu: bool
) -> EnergyUse:  # fmt: skip
    parts = {"cpu": cpu, "dram": dram, "gpu": gpu}
    known = [part for part in parts.values() if part.joules is not None]
    missing = tuple(
        name for name, part in parts.items() if part.joules is None and (name != "gpu" or has_gpu)
    )
    if not known:
        return EnergyUse(cpu, dram, gpu, None, "unavailable", missing)
    total = sum(part.joules or 0.0 for part in known)
    measured = all(part.how == "measured" for part in known)
    return EnergyUse(cpu, dram, gpu, total, "measured" if measured else "estimated", missing)


def _later(_: float, later: float) -> float:
    return later


def _mean(a: float, b: float) -> float:
    return (a + b) / 2
