"""Whether an edited file is Python and differs from what it was only where it was edited."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

__all__ = ["CheckFailed", "check_only_touched"]

_BLOCKS = (ast.stmt, ast.excepthandler, ast.match_case)


class CheckFailed(Exception):  # noqa: N818 - an answer, not an error
    """The edited text must not be used. The text says why."""


class _Statement(NamedTuple):
    """A statement without the statements inside it, and the lines of this part."""

    says: str
    first: int
    last: int


def check_only_touched(
    before: str, after: str, touched: Sequence[tuple[int, int]], name: str
) -> None:
    """touched: first and last lines of what was edited, in `before`.

    CheckFailed: `after` does not compile, or what stood on other lines is no longer all there, in
    its order, as text and as syntax.
    """

    def untouched(first: int, last: int) -> bool:
        return not any(start <= last and first <= end for start, end in touched)

    try:
        old, new = _parsed(before, name), _parsed(after, name)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise CheckFailed(f"the edited file would not compile ({error})") from error
    _check_all_in(
        [(one.says, one.first) for one in old if untouched(one.first, one.last)],
        iter([one.says for one in new]),
    )
    lines = enumerate(before.split("\n"), start=1)
    _check_all_in(
        [(text, number) for number, text in lines if untouched(number, number)],
        iter(after.split("\n")),
    )


def _parsed(text: str, name: str) -> list[_Statement]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # the program's own, which it had before
        warnings.simplefilter("ignore", DeprecationWarning)
        compile(text, name, "exec", dont_inherit=True)
        return [*_statements(ast.parse(text))]


def _check_all_in(wanted: Iterable[tuple[str, int]], found: Iterator[str]) -> None:
    for says, line in wanted:
        if says not in found:  # an iterator: what was passed by is not looked at again
            raise CheckFailed(f"the edit would also change line {line}")


def _statements(node: ast.AST, depth: int = 0) -> Iterator[_Statement]:
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.stmt):
                first, last = _header_lines(child)
                yield _Statement(f"{depth} {name} {_header(child)}", first, last)
            if isinstance(child, _BLOCKS):
                yield from _statements(child, depth + 1)


def _header_lines(statement: ast.stmt) -> tuple[int, int]:
    if isinstance(statement, ast.Match):
        return statement.lineno, statement.cases[0].pattern.lineno - 1
    block: list[ast.stmt] = getattr(statement, "body", [])
    if not block:
        return statement.lineno, statement.end_lineno or statement.lineno
    return _start(statement), max(statement.lineno, _start(block[0]) - 1)


def _start(statement: ast.stmt) -> int:
    """With its decorators."""
    decorators: list[int] = [one.lineno for one in getattr(statement, "decorator_list", ())]
    return min([statement.lineno, *decorators])


def _header(statement: ast.stmt) -> str:
    parts = [type(statement).__name__]
    for name, value in ast.iter_fields(statement):
        several = value if isinstance(value, list) else [value]
        parts += [name, *(_dump(one) for one in several if not isinstance(one, _BLOCKS))]
    return " ".join(parts)


def _dump(value: object) -> str:
    return ast.dump(value) if isinstance(value, ast.AST) else repr(value)
