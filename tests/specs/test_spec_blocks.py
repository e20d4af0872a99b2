"""Every example of the specifications runs with nothing but its import line changed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.specs.blocks import find_specs, python_blocks, stepscope_names, with_our_import
from tests.specs.bottleneck_detection import INSIDES
from tests.specs.run_block import CASES

pytestmark = pytest.mark.timed

SPECS = find_specs()
LEFT_OUT = {"002": frozenset[str](), "003": frozenset[str](), "004": INSIDES}

needs_specs = pytest.mark.skipif(
    SPECS is None,
    reason="the specifications are not beside the project; STEPSCOPE_SPECS may name their folder",
)


@needs_specs
@pytest.mark.parametrize(
    ("spec", "heading"), [(spec, heading) for spec in CASES for heading in CASES[spec]]
)
def test_the_example_does_what_it_says(spec: str, heading: str, tmp_path: Path) -> None:
    # A process of its own: hooks, threads and operations of one example are not those of another.
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.specs.run_block", spec, heading],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr


@needs_specs
@pytest.mark.parametrize("spec", CASES)
def test_every_block_is_either_run_or_listed_as_no_example(spec: str) -> None:
    assert SPECS is not None
    (document,) = SPECS.glob(f"{spec}_*.txt")
    found = [block.heading for block in python_blocks(document.read_text("utf-8"))]
    assert sorted(found) == sorted([*CASES[spec], *LEFT_OUT[spec]])


def test_blocks_are_named_by_their_heading_and_comments_in_code_are_no_headings() -> None:
    text = "# One\n```python\n# Two\na = 1\n```\n```python\nb = 2\n```\n```sh\nls\n```\n## Three\n"
    blocks = [*python_blocks(text), *python_blocks("## Four\n```python\nc = 3\n```\n")]
    assert blocks == [("One", "# Two\na = 1\n"), ("One (2)", "b = 2\n"), ("Four", "c = 3\n")]


def test_only_the_module_of_an_import_line_is_changed() -> None:
    code = "import torch\nfrom cookbook.measure import PerformanceProfiler\nx = 'cookbook.measure'"
    changed = (
        "import torch\nfrom stepscope.profilers import PerformanceProfiler\nx = 'cookbook.measure'"
    )
    assert with_our_import(code) == changed


def test_a_block_is_given_only_the_public_names_that_it_uses() -> None:
    assert list(stepscope_names("profiler = PerformanceProfiler(); model.fit()")) == [
        "PerformanceProfiler"
    ]
