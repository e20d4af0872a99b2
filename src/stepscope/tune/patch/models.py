"""The model that a line calls, and where the program makes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import libcst as cst
from libcst import metadata as meta

from stepscope.model.change import Applied
from stepscope.tune.patch.calls import calls_at
from stepscope.tune.patch.flows import callers, passed
from stepscope.tune.patch.names import assignments, value_of
from stepscope.tune.patch.source import Refuse, Source

__all__ = ["Origin", "model_call", "origin_of", "place_after"]

_MOST_CALLERS = 3  # functions that a model is handed through
_LOSSES = ("loss", "criterion")
_MOVES = ("to", "cuda", "cpu", "float", "double", "half", "bfloat16")


class Origin(NamedTuple):
    """name: what the model is called where it is made. targets: the assignments of it."""

    name: str
    targets: tuple[cst.CSTNode, ...]


def model_call(source: Source, site: Applied) -> cst.Call:
    """Refuse: it is not plain which call of the line is the model's."""
    found = calls_at(source, site, lambda c: _may_be_model(source, c), "call of a model by a name")
    if len(found) > 1 or _outer_models(source, found[0]):
        raise Refuse(f"line {site.line} of {source.path.name} calls several things by their names")
    return found[0]


def _may_be_model(source: Source, call: cst.Call) -> bool:
    """An object of the program is called that is no loss."""
    if any(word in source.code(call.func).lower() for word in _LOSSES):
        return False
    if isinstance(call.func, cst.Name):
        made = assignments(source, call.func)
        if not made or any(_is_definition(one) for one in made):
            return False
        values = [value_of(source, one.node) for one in made]
    elif isinstance(call.func, cst.Attribute):
        targets = _attribute_targets(source, call.func)
        if not targets:
            return False
        values = [value_of(source, one) for one in targets]
    else:
        return False
    kinds = [source.code(value.func) for value in values if isinstance(value, cst.Call)]
    return not any(kind.endswith("Loss") for kind in kinds)


def _is_definition(made: meta.Assignment) -> bool:
    return isinstance(made, meta.ImportAssignment) or isinstance(
        made.node, cst.FunctionDef | cst.ClassDef
    )


def _outer_models(source: Source, call: cst.Call) -> bool:
    """`first(second(x))`: either may be the model."""
    return any(
        isinstance(outer, cst.Call) and _may_be_model(source, outer)
        for outer in source.around(call)
    )


def origin_of(source: Source, func: cst.BaseExpression, depth: int = 0) -> Origin:
    """Refuse: where it is made cannot be seen in this file."""
    code = source.code(func)
    if isinstance(func, cst.Attribute):
        targets = _attribute_targets(source, func)
        if targets:
            return Origin(code, targets)
    if not isinstance(func, cst.Name) or depth > _MOST_CALLERS:
        raise Refuse(f"where {code} is made is not to be seen in {source.path.name}")
    made = assignments(source, func)
    parameters = [one.node for one in made if isinstance(one.node, cst.Param)]
    if not parameters:
        return Origin(code, tuple(one.node for one in made))
    if len(made) > 1:
        raise Refuse(f"{code} is a parameter and is assigned again")
    return _of_parameter(source, parameters[0], depth)


def _of_parameter(source: Source, parameter: cst.Param, depth: int) -> Origin:
    name = parameter.name.value
    function = source.parent(source.parent(parameter) or parameter)
    calls = callers(source, function) if isinstance(function, cst.FunctionDef) else None
    if not calls or not isinstance(function, cst.FunctionDef):
        raise Refuse(f"what calls the function that gets {name} is not to be seen")
    given = [passed(function, call, parameter) for call in calls]
    origins = {origin_of(source, one, depth + 1) for one in given if one is not None}
    if len(origins) != 1 or None in given:
        raise Refuse(f"{function.name.value} is called with more than one {name}")
    return origins.pop()


def _attribute_targets(source: Source, attribute: cst.Attribute) -> tuple[cst.CSTNode, ...]:
    """What is assigned to `self.model` in the same class."""
    inside = source.enclosing(attribute, cst.ClassDef)
    code = source.code(attribute)
    return tuple(
        one
        for one in source.all(cst.Attribute)
        if source.code(one) == code
        and source.enclosing(one, cst.ClassDef) is inside
        and isinstance(source.parent(one), cst.AssignTarget | cst.AnnAssign)
    )


def place_after(source: Source, origin: Origin, call: cst.Call) -> cst.CSTNode:
    """The statement behind which the model is there, whichever way the program went.

    Refuse: there is none before its call.
    """
    chains = [_chain(source, target) for target in origin.targets]
    if not chains or not all(chains):
        raise Refuse(f"{origin.name} is not made by a statement of its own")
    depth = 0
    while all(len(chain) > depth + 1 for chain in chains) and _one_block(chains, depth + 1):
        depth += 1
    if not _one_block(chains, depth):
        raise Refuse(f"{origin.name} is made in several functions")
    last = max((chain[depth][1] for chain in chains), key=lambda one: source.lines(one)[0])
    block = chains[0][depth][0]
    before = next((one for within, one in _chain(source, call) if within is block), None)
    if before is not None and source.lines(before)[0] <= source.lines(last)[0]:
        raise Refuse(f"{origin.name} is assigned again where it is called")
    return _after_moves(source, origin.name, block, last, before)


_Step = tuple[cst.CSTNode, cst.CSTNode]  # a block and the statement in it


def _chain(source: Source, node: cst.CSTNode) -> list[_Step]:
    """The statements around a node up to its function, from the outside in."""
    found: list[_Step] = []
    inner = node
    for outer in source.around(node):
        if isinstance(outer, cst.Module | cst.IndentedBlock) and isinstance(
            inner, cst.SimpleStatementLine | cst.BaseCompoundStatement
        ):
            found.append((outer, inner))
        if isinstance(outer, cst.FunctionDef | cst.ClassDef):
            break
        inner = outer
    return found[::-1]


def _one_block(chains: Sequence[Sequence[_Step]], depth: int) -> bool:
    return all(chain[depth][0] is chains[0][depth][0] for chain in chains)


def _after_moves(
    source: Source,
    name: str,
    block: cst.CSTNode,
    last: cst.CSTNode,
    before: cst.CSTNode | None,
) -> cst.CSTNode:
    """Behind `model.to(device)` and the like, which stand on lines of their own."""
    for statement in _following(block, last):
        if statement is before:
            break
        if _moves(source, statement, name):
            last = statement
    return last


def _following(block: cst.CSTNode, statement: cst.CSTNode) -> Iterator[cst.CSTNode]:
    body = list(getattr(block, "body", ()))
    yield from body[next(i for i, one in enumerate(body) if one is statement) + 1 :]


def _moves(source: Source, statement: cst.CSTNode, name: str) -> bool:
    first = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    call = first.value if isinstance(first, cst.Expr) else None
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
        return False
    return call.func.attr.value in _MOVES and source.code(call.func.value) == name
