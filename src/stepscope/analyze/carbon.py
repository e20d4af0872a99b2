"""Energy → greenhouse gases, by the yearly average of a country's grid."""

from __future__ import annotations

import json
import math
from functools import cache
from importlib.resources import files
from typing import Any

from stepscope.errors import UsageError
from stepscope.model.energy import GridIntensity

__all__ = ["grams", "grid_intensity"]

_JOULES_PER_KWH = 3_600_000
_TABLE = "grid_intensity.json"


def grams(joules: float, intensity: GridIntensity) -> float:
    """Grams of CO2-equivalents for so much energy from such a grid.

    >>> grams(3_600_000, GridIntensity(400.0, "here", 2024, "a meter"))
    400.0
    """
    return joules / _JOULES_PER_KWH * intensity.grams_per_kwh


def grid_intensity(country: str = "", grams_per_kwh: float | None = None) -> GridIntensity:
    """The intensity of a country's grid, or the one that the user gives.

    `country`: its ISO code, of two or three letters; "": the average of the world. The figures
    ship with stepscope (yearly averages, with their source); nothing is asked of the network.
    """
    if grams_per_kwh is not None:
        if not (math.isfinite(grams_per_kwh) and grams_per_kwh >= 0):
            raise UsageError(f"{grams_per_kwh} g/kWh is no carbon intensity: give 0 or more.")
        return GridIntensity(grams_per_kwh, country or "as given", None, "given by the user")
    table = _table()
    if not country:
        return _entry("world average", table["world"], table)
    code = country.strip().upper()
    countries: dict[str, Any] = table["countries"]
    by_alpha3 = {one["alpha3"]: one for one in countries.values()}
    found = countries.get(code) or by_alpha3.get(code)
    if found is None:
        raise UsageError(
            f"there is no carbon intensity for {country!r}. Give grams per kWh yourself, or one of "
            f"these ISO codes (those of three letters do as well): {', '.join(sorted(countries))}."
        )
    return _entry(found["name"], found, table)


def _entry(place: str, found: dict[str, Any], table: dict[str, Any]) -> GridIntensity:
    return GridIntensity(found["grams_per_kwh"], place, found["year"], table["about"]["source"])


@cache
def _table() -> dict[str, Any]:
    text = files("stepscope.analyze").joinpath(_TABLE).read_text(encoding="utf-8")
    table: dict[str, Any] = json.loads(text)
    return table
