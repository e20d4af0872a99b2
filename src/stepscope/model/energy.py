"""How much energy something took, how that is known, and what it means for the climate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["EnergyFigure", "EnergyUse", "GridIntensity", "How"]

How = Literal["measured", "estimated", "unavailable"]


@dataclass(frozen=True, slots=True)
class EnergyFigure:
    """The energy of one part of the machine.

    joules: None when it is unavailable; never a guess.
    model: how the number came about.
        "rapl", "nvml"                   counters in the processor, in the card: measured
        "power-integral"                 a card's power, sampled, over time: estimated
        "given-watts-times-busy-share"   the user's figure for the CPUs at full load × the share of
                                         their time in which they were busy × time: estimated; what
                                         they draw when idle is left out
    note: what it includes, or why it is missing; a sentence.
    """

    joules: float | None
    how: How
    model: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class EnergyUse:
    """The energy of a machine over some time.

    total_joules: of the parts that are known; None: of none. `missing` names the parts that are
    there and that it leaves out. how: "measured" when all its parts are.
    """

    cpu: EnergyFigure
    dram: EnergyFigure
    gpu: EnergyFigure
    total_joules: float | None
    how: How
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GridIntensity:
    """Greenhouse gases for a kilowatt-hour. year: None for a figure that the user gave."""

    grams_per_kwh: float
    place: str
    year: int | None
    source: str
