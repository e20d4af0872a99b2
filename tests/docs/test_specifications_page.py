"""docs/specifications.md names a test for every item of the specifications."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.specs.blocks import find_specs

ROOT = Path(__file__).parents[2]
PAGE = ROOT.joinpath("docs", "specifications.md").read_text("utf-8")
SPECS = find_specs()
DOCUMENTS = ("000", "001", "002", "003", "004")
_CELL = re.compile(r"(?<!\\)\|")  # a pipe that is not escaped
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


class Item(NamedTuple):
    text: str
    state: str
    held_by: str


def items_of(page: str) -> list[Item]:
    """The rows of all tables whose first cell names a document."""
    rows = [
        [cell.strip() for cell in _CELL.split(line)[1:-1]]
        for line in page.splitlines()
        if re.match(r"\| 00[0-4] ", line)
    ]
    return [Item(*row) for row in rows]


@cache
def names_in(file: str) -> frozenset[str]:
    tree = ast.parse(ROOT.joinpath(file).read_text("utf-8"))
    found = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return frozenset(node.name for node in found if node.name.startswith("test_"))


@pytest.mark.parametrize("item", items_of(PAGE), ids=lambda item: item.text)
def test_the_tests_that_hold_an_item_exist(item: Item) -> None:
    named = _TEST.findall(item.held_by)
    assert named, "no test is named"
    assert [test for test in named if test[1] not in names_in(test[0])] == []


@pytest.mark.parametrize("item", items_of(PAGE), ids=lambda item: item.text)
def test_the_state_of_an_item_is_one_of_two(item: Item) -> None:
    assert re.match("works as written|differs on purpose: .", item.state)


@pytest.mark.skipif(SPECS is None, reason="the specifications are not beside the project")
@pytest.mark.parametrize("document", DOCUMENTS)
def test_no_item_of_a_document_is_left_out(document: str) -> None:
    assert SPECS is not None
    wanted = [item.text for item in items_of(SPECS.joinpath("ITEMS.md").read_text("utf-8"))]
    listed = {item.text for item in items_of(PAGE)}
    wanted = [text for text in wanted if text.startswith(f"{document} ")]
    assert wanted
    assert [text for text in wanted if text not in listed] == []
