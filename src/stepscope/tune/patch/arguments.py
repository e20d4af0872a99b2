"""Arguments of a call and entries of a dictionary: read, replaced and added in the user's style."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import libcst as cst

from stepscope.tune.patch.source import Refuse, same

__all__ = [
    "Made",
    "argument",
    "atom",
    "constantly",
    "entry",
    "in_place",
    "is_literal",
    "mappings",
    "set_argument",
    "set_entry",
    "starred",
]

# From what stands there (None: nothing does) to what shall stand there.
Made = Callable[[cst.BaseExpression | None], cst.BaseExpression]


def _literal(value: Any) -> cst.BaseExpression:
    """A literal. Refuse: the value is not one that Python can be written for."""
    if value is not None and not isinstance(value, bool | int | float | str):
        raise Refuse(f"{value!r} cannot be written as an argument")
    return cst.parse_expression(repr(value))


def constantly(value: Any) -> Made:
    made = _literal(value)
    return lambda _: made


def is_literal(node: cst.CSTNode) -> bool:
    if isinstance(node, cst.UnaryOperation):
        return is_literal(node.expression)
    if isinstance(node, cst.Name):
        return node.value in ("True", "False", "None")
    return isinstance(node, cst.Integer | cst.Float | cst.SimpleString)


def atom(node: cst.BaseExpression) -> cst.BaseExpression:
    """In parentheses where it needs them to be called, multiplied or followed by a dot."""
    if node.lpar or isinstance(node, cst.Name | cst.Attribute | cst.Call | cst.Subscript):
        return node
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def argument(call: cst.Call, key: str, position: int | None = None) -> int | None:
    """Which argument of the call it is. position: where it stands if not given by its name."""
    for index, arg in enumerate(call.args):
        if arg.keyword is not None and arg.keyword.value == key:
            return index
        if index == position and arg.keyword is None and not arg.star:
            return index
        if arg.star == "*":
            position = None
    return None


def starred(call: cst.Call, position: int | None) -> bool:
    """Whether the argument may be in a `*sequence`."""
    return position is not None and any(arg.star == "*" for arg in call.args[: position + 1])


def mappings(call: cst.Call) -> list[cst.Arg]:
    """Its `**mapping` arguments."""
    return [arg for arg in call.args if arg.star == "**"]


def set_argument(call: cst.Call, key: str, made: Made, position: int | None = None) -> cst.Call:
    index = argument(call, key, position)
    if index is None:
        keyword = cst.Arg(
            keyword=cst.Name(key),
            value=made(None),
            equal=_PLAIN_EQUAL,
            comma=cst.MaybeSentinel.DEFAULT,
        )
        return call.with_changes(args=_appended(call, keyword))
    args = [*call.args]
    args[index] = args[index].with_changes(value=in_place(args[index].value, made))
    return call.with_changes(args=args)


_PLAIN_EQUAL = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))


def in_place(old: cst.BaseExpression, made: Made) -> cst.BaseExpression:
    """What says the same stays as it is written."""
    new = made(old)
    return old if same(new, old) else new


def entry(mapping: cst.BaseExpression, key: str) -> cst.BaseExpression | None:
    """The value of a key in `{…}` or `dict(…)`."""
    if isinstance(mapping, cst.Call):
        index = argument(mapping, key)
        return None if index is None else mapping.args[index].value
    elements = mapping.elements if isinstance(mapping, cst.Dict) else ()
    for element in elements:
        if isinstance(element, cst.DictElement) and _says(element.key, key):
            return element.value
    return None


def set_entry(mapping: cst.BaseExpression, key: str, made: Made) -> cst.BaseExpression:
    """In `{…}` or `dict(…)`."""
    if isinstance(mapping, cst.Call):
        return set_argument(mapping, key, made)
    assert isinstance(mapping, cst.Dict)
    elements = [*mapping.elements]
    for index, element in enumerate(elements):
        if isinstance(element, cst.DictElement) and _says(element.key, key):
            elements[index] = element.with_changes(value=in_place(element.value, made))
            return mapping.with_changes(elements=elements)
    new = cst.DictElement(cst.SimpleString(f'"{key}"'), made(None))
    return mapping.with_changes(elements=[*elements, new])


def _says(node: cst.BaseExpression, key: str) -> bool:
    return isinstance(node, cst.SimpleString) and node.evaluated_value == key


def _appended(call: cst.Call, new: cst.Arg) -> Sequence[cst.Arg]:
    """Laid out as the arguments that are there: one a line stay one a line."""
    if not call.args:
        return [new]
    *earlier, last = call.args
    end = last.comma if isinstance(last.comma, cst.Comma) else None
    closing = last.whitespace_after_arg if end is None else end.whitespace_after
    between = _between(call, earlier)
    if isinstance(between, cst.ParenthesizedWhitespace):
        if isinstance(closing, cst.ParenthesizedWhitespace):
            # The comment behind the last argument stays behind it.
            between = between.with_changes(
                first_line=closing.first_line, empty_lines=closing.empty_lines
            )
        closing = _bare(closing)
    last = last.with_changes(
        comma=cst.Comma(whitespace_after=between), whitespace_after_arg=cst.SimpleWhitespace("")
    )
    if end is not None:
        return [*earlier, last, new.with_changes(comma=cst.Comma(whitespace_after=closing))]
    return [*earlier, last, new.with_changes(whitespace_after_arg=closing)]


def _between(call: cst.Call, earlier: Sequence[cst.Arg]) -> cst.BaseParenthesizableWhitespace:
    """What stands between two arguments here."""
    known = call.whitespace_before_args
    if earlier and isinstance(earlier[-1].comma, cst.Comma):
        known = earlier[-1].comma.whitespace_after
    return _bare(known) if isinstance(known, cst.ParenthesizedWhitespace) else _BLANK


_BLANK = cst.SimpleWhitespace(" ")


def _bare(
    space: cst.BaseParenthesizableWhitespace,
) -> cst.BaseParenthesizableWhitespace:
    """Without comments and empty lines."""
    if not isinstance(space, cst.ParenthesizedWhitespace):
        return space
    first = space.first_line.with_changes(comment=None, whitespace=cst.SimpleWhitespace(""))
    return space.with_changes(first_line=first, empty_lines=[])
