"""The table of public programs, and the runner on a project written here."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from stepscope.model.kinds import KINDS
from tests.public import prepare
from tests.public.__main__ import ProgramError, compare
from tests.public.programs import Program, read_programs

TRAIN = """
import torch, time
a = torch.nn.Linear(8, 8)
b = torch.nn.Linear(8, 8)
optimizers = [torch.optim.SGD(net.parameters(), lr=0.1) for net in (a, b)]
for step in range(LENGTH):
    loss = b(a(torch.randn(4, 8))).pow(2).mean()
    loss.backward()
    for number, optimizer in enumerate(optimizers):
        if number == 0 or step % 2:
            optimizer.step()
            optimizer.zero_grad()
    print("loss", loss.item(), "after", time.monotonic(), "s")
"""


def program(**fields: object) -> Program:
    base = {"project": "owner/name", "file": "train.py", "headline": "compute"}
    return Program(**(base | {"finding": "compute", "because": ""} | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize("row", read_programs(), ids=lambda row: row.title)
def test_a_row_names_kinds_functions_and_expressions_that_exist(row: Program) -> None:
    assert set(row.headline.split()) | set(row.finding.split()) <= set(KINDS)
    assert {line.split()[0] for line in row.data} <= set(prepare.FUNCTIONS)
    assert all(2 <= len(edit) <= 3 for edit in row.edits)
    re.compile(row.times)
    assert row.steps in ("most", "all") or isinstance(row.steps, int)
    assert row.because


def test_titles_are_unique() -> None:
    titles = [row.title for row in read_programs()]
    assert len(set(titles)) == len(titles)


@pytest.mark.slow
def test_a_program_is_edited_counted_and_compared_with_its_run_under_stepscope(
    tmp_path: Path,
) -> None:
    clone = tmp_path / "owner" / "name"
    clone.mkdir(parents=True)
    (clone / "train.py").write_text(TRAIN.replace("import torch,", "import torch\nimport"))
    row = program(edits=[["LENGTH", "31"]], seed=True)
    result = compare(row, tmp_path, sys.executable, None)
    assert (result["steps_expected"], result["steps"]) == (31, 31)
    assert result["same_output"]
    assert result["hook_failures"] == 0


def test_an_edit_that_finds_nothing_is_an_error_of_the_program(tmp_path: Path) -> None:
    (tmp_path / "owner" / "name").mkdir(parents=True)
    (tmp_path / "owner" / "name" / "train.py").write_text("print(1)\n")
    with pytest.raises(ProgramError, match="another version"):
        compare(program(edits=[["absent", "x"]]), tmp_path, sys.executable, None)
