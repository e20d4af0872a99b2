from __future__ import annotations

import json
from importlib.resources import files

import pytest

from stepscope.analyze.carbon import grams, grid_intensity
from stepscope.errors import UsageError
from stepscope.model.energy import GridIntensity


def test_grams_by_hand() -> None:
    # 7.2 MJ are 2 kWh.
    assert grams(7_200_000, GridIntensity(250.0, "x", None, "y")) == 500.0


@pytest.mark.parametrize("code", ["DE", "de", "DEU", " deu "])
def test_a_country_by_its_iso_code(code: str) -> None:
    found = grid_intensity(code)
    assert (found.place, found.grams_per_kwh, found.year) == ("Germany", 342, 2024)
    assert "Ember" in found.source


def test_without_a_country_it_is_the_world_and_says_so() -> None:
    found = grid_intensity()
    assert (found.place, found.grams_per_kwh, found.year) == ("world average", 473, 2024)


def test_the_users_own_figure_wins() -> None:
    found = grid_intensity("DE", grams_per_kwh=12.5)
    assert (found.grams_per_kwh, found.year, found.source) == (12.5, None, "given by the user")


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_a_figure_that_cannot_be_is_refused(value: float) -> None:
    with pytest.raises(UsageError, match="g/kWh"):
        grid_intensity(grams_per_kwh=value)


def test_an_unknown_country_is_told_what_is_allowed() -> None:
    with pytest.raises(UsageError, match=r"'Atlantis'.*AF, AG.*DE.*ZW"):
        grid_intensity("Atlantis")


def test_the_table_is_sound() -> None:
    text = files("stepscope.analyze").joinpath("grid_intensity.json").read_text(encoding="utf-8")
    table = json.loads(text)
    assert {"source", "licence", "quantity"} <= table["about"].keys()
    assert len(table["countries"]) > 60
    assert len({one["alpha3"] for one in table["countries"].values()}) == len(table["countries"])
    for code, one in table["countries"].items():
        assert code.isupper()
        assert (len(code), len(one["alpha3"])) == (2, 3)
        assert 0 < one["grams_per_kwh"] < 1400  # old gas plants: 1,306 in Turkmenistan
        assert 2023 <= one["year"] <= 2026
        assert grid_intensity(code).place == one["name"]


def test_known_grids_stand_in_the_known_order() -> None:
    water, atoms, mixed, coal = (grid_intensity(c).grams_per_kwh for c in ("NO", "FR", "US", "IN"))
    assert water < atoms < mixed < coal
