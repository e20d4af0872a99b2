"""Source that does to a batch what it does to each sample, and source that may not."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from stepscope.collect.chain import like
from stepscope.tune.loading.elementwise import why_not_elementwise

SCALE = 2.0


class Pair(NamedTuple):
    x: Any
    y: Any


def halved(x: Any) -> Any:
    return x / SCALE


def summed(x: Any) -> Any:
    return x / x.sum()


class Owner:
    def __init__(self) -> None:
        self.x = torch.randn(4, 3)
        self.parts = (self.x, np.ones(4))
        self.lookup = {1: 2}
        self.train: bool | None = True
        self.function = halved

    def indexed(self, index: Any) -> Any:
        """What it says does not matter."""
        x = self.x[index].to(torch.float64)
        x = x * 2 - 1
        return x, -self.parts[1][index], index % 3

    def each_part(self, index: Any) -> Any:
        return tuple(part[index] for part in self.parts)

    def configured(self, index: Any) -> Any:
        if self.train is not None:
            return Pair(self.other(index), np.asarray(self.parts[1][index]))
        return {"x": self.x[index]}

    def other(self, index: Any) -> Any:
        return halved(self.x[index])

    def held(self, index: Any) -> Any:
        return self.function(self.x[index])

    def branching(self, index: Any) -> Any:
        if index == 3:
            return self.x[0]
        return self.x[index]

    def choosing(self, index: Any) -> Any:
        return self.x[index] if index else self.x[0]

    def member(self, index: Any) -> Any:
        return index in self.parts

    def looking_up(self, index: Any) -> Any:
        return self.lookup[index]

    def reducing(self, index: Any) -> Any:
        return self.x[index] - self.x[index].mean()

    def through_another(self, index: Any) -> Any:
        return summed(self.x[index])

    def multiplied(self, index: Any) -> Any:
        return self.x @ self.x[index]

    def left_out(self, index: Any) -> Any:
        return [part[index] for part in self.parts if part is not None]

    def looping(self, index: Any) -> Any:
        for part in self.parts:
            index = index + part
        return index

    def opening(self, index: Any) -> Any:
        with open("x") as file:  # noqa: PTH123
            return file.read(index)

    def given(self, index: Callable[..., Any]) -> Any:
        return index(self.x)

    def unknown(self, index: Any) -> Any:
        return hash(index)


@pytest.mark.parametrize("name", ["indexed", "each_part", "configured", "other", "held"])
def test_indexing_and_arithmetic_may_be_done_at_once(name: str) -> None:
    assert why_not_elementwise(getattr(Owner, name), Owner()) == ""


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("branching", "may treat one sample otherwise"),
        ("choosing", "more than indexing"),
        ("member", "more than indexing"),
        ("looking_up", "it uses lookup"),
        ("reducing", "calls mean"),
        ("through_another", "calls sum"),
        ("multiplied", "line"),
        ("left_out", "leaves some out"),
        ("looping", "more than indexing"),
        ("opening", "more than indexing"),
        ("given", "calls index"),
        ("unknown", "calls hash"),
    ],
)
def test_what_may_treat_samples_differently_is_named(name: str, why: str) -> None:
    assert why in why_not_elementwise(getattr(Owner, name), Owner())


def test_what_has_no_source_or_stands_behind_a_decorator_is_not_believed() -> None:
    @functools.cache
    def cached(x: Any) -> Any:
        return x

    @functools.wraps(halved)
    def wrapper(x: Any) -> Any:
        return summed(x)

    made: dict[str, Any] = {}
    exec("def typed(x):\n    return x", made)
    for function in (cached, wrapper, made["typed"], torch.exp, len, None):
        assert why_not_elementwise(function) != ""


def test_a_function_that_a_collector_stands_in_front_of_is_read_all_the_same() -> None:
    def watching(*args: Any) -> Any:
        return halved(*args)

    assert why_not_elementwise(like(halved, watching)) == ""
