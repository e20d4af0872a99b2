"""The model and its call."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.tune.patch.cases_layouts import LAYOUTS
from tests.unit.tune.patch.cases_models import AUTOCASTS, COMPILES
from tests.unit.tune.patch.programs import Case, check_case


@pytest.mark.parametrize("case", LAYOUTS, ids=lambda case: case.name)
def test_a_model_and_its_images_are_laid_out_anew(case: Case, tmp_path: Path) -> None:
    check_case(case, tmp_path)


@pytest.mark.parametrize("case", AUTOCASTS, ids=lambda case: case.name)
def test_the_statement_that_calls_the_model_runs_under_autocast(case: Case, tmp_path: Path) -> None:
    check_case(case, tmp_path)


@pytest.mark.parametrize("case", COMPILES, ids=lambda case: case.name)
def test_a_model_is_compiled_where_it_is_made(case: Case, tmp_path: Path) -> None:
    check_case(case, tmp_path)
