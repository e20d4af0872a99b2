from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, NamedTuple, TypedDict

import pytest

from stepscope.errors import FormatError
from stepscope.model.plain import (
    Count,
    FilePath,
    Known,
    Range,
    Share,
    Text,
    UnixTime,
    from_json,
    from_plain,
)


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Point(NamedTuple):
    x: int
    y: float = 0.5


class Labels(TypedDict, total=False):
    label: str


@dataclass(frozen=True)
class Tree:
    name: str
    children: tuple[Tree, ...] = ()


def test_missing_fields_take_their_defaults_and_unknown_ones_are_ignored() -> None:
    assert from_plain(Point, {"x": 1, "z": []}, "point") == Point(1, 0.5)


def test_a_typed_dict_keeps_what_others_wrote() -> None:
    assert from_plain(Labels, {"other": 1}, "labels") == {"other": 1}


def test_a_class_may_refer_to_itself() -> None:
    tree = {"name": "a", "children": [{"name": "b"}]}
    assert from_plain(Tree, tree, "tree") == Tree("a", (Tree("b"),))


def test_a_number_takes_the_type_that_its_field_states() -> None:
    assert repr(from_plain(Point, {"x": 1, "y": 2}, "point")) == "Point(x=1, y=2.0)"


@pytest.mark.parametrize(
    ("kind", "plain", "says"),
    [
        (Point, {"y": 1}, "it has no x."),
        (Point, {"x": True}, "it.x should be a whole number, and is True."),
        (Point, {"x": 10**30}, "it.x is outside of -1e+18 to 1e+18."),
        (tuple[Point, ...], [{"x": 1}, {"x": "1"}], "it[1].x should be a whole number"),
        (tuple[int, int], [1], "it should have 2 parts, and has 1."),
        (Mapping[str, int], {"a": None}, "it.a should be a whole number, and is None."),
        (list[str], "text", "it should be a list"),
        (Colour, "green", "it should be one of red, blue."),
        (Labels, {"label": 1}, "it.label should be text"),
        (Count, -1, "it is outside of 0 to 1e+18."),
        (Share, 1.5, "it is outside of 0 to 1."),
        (UnixTime, 1e12, "it is outside of 0 to 2.5e+11."),
        (float, float("nan"), "it is no finite number."),
        (FilePath, "a\0b", "it is not a path."),
        (Text, "\ud800", "it is not text."),
        (Annotated[str, Known(("a", "b"))], "c", "it is 'c', and should be one of a, b."),
        (Annotated[tuple[int, ...], Range(2, 2)], [1], "it has a length outside of 2 to 2."),
    ],
)
def test_what_is_something_else_is_refused_with_its_place(kind: Any, plain: Any, says: str) -> None:
    with pytest.raises(FormatError) as refused:
        from_plain(kind, plain, "it")
    assert str(refused.value).startswith(says)


def test_what_is_nested_without_end_is_refused() -> None:
    tree: dict[str, Any] = {"name": "a"}
    for _ in range(5000):
        tree = {"name": "a", "children": [tree]}
    with pytest.raises(FormatError, match="nested too deeply"):
        from_plain(Tree, tree, "tree")


def test_a_text_that_is_no_json_is_refused() -> None:
    with pytest.raises(FormatError, match="it is not JSON"):
        from_json(Point, "{", "point")
