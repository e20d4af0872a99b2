"""Edits that change more than they should are found."""

from __future__ import annotations

import pytest

from stepscope.tune.patch.check import CheckFailed, check_only_touched

BEFORE = """\
@decorated
def f(x):
    y = g(x)  # comment
    if y:
        y = g(x)
    return y
match f(1):
    case 1:
        z = 3
"""


@pytest.mark.parametrize(
    ("old", "new", "touched"),
    [
        ("    y = g(x)  #", "    y = g(x, 2)  #", [(3, 3)]),
        ("        y = g(x)\n", "        with h:\n            y = g(x)\n", [(5, 5)]),
        ("    return y\n", "    k = 1\n    return y\n", []),
        ("f(x)", "f(x=2)", [(2, 2)]),
        ("match f(1)", "match f(2)", [(7, 7)]),
    ],
)
def test_edits_of_touched_lines_pass(old: str, new: str, touched: list[tuple[int, int]]) -> None:
    check_only_touched(BEFORE, BEFORE.replace(old, new, 1), touched, "t.py")


@pytest.mark.parametrize(
    ("old", "new", "touched", "why"),
    [
        ("y = g(x)  #", "y = g(x, 2)  #", [(5, 5)], "would also change line 3"),
        ("# comment", "# remark", [(5, 5)], "would also change line 3"),
        ("z = 3", "z = 4", [(7, 7)], "would also change line 9"),
        ("    return y\n", "", [(5, 5)], "would also change line 6"),
        ("    if y:\n", "    if y:\n    ", [(4, 4)], "would also change line 5"),
        ("@decorated\n", "", [(2, 6)], "would also change line 1"),
        ("y = g(x)  #", "y = g(x  #", [(3, 3)], "would not compile"),
    ],
)
def test_edits_of_anything_else_do_not(
    old: str, new: str, touched: list[tuple[int, int]], why: str
) -> None:
    with pytest.raises(CheckFailed, match=why):
        check_only_touched(BEFORE, BEFORE.replace(old, new, 1), touched, "t.py")
