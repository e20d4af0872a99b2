"""Where the value of an argument comes from: a constant, a parameter, a dictionary."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import libcst as cst
from libcst import metadata as meta

from stepscope.tune.patch.arguments import argument, is_literal
from stepscope.tune.patch.names import only_assignment, qualified, value_of
from stepscope.tune.patch.source import Refuse, Source, same

__all__ = ["callers", "clean_dictionary", "literal_places", "passed"]


def literal_places(
    source: Source, value: cst.BaseExpression, measured: Collection[cst.CSTNode]
) -> Sequence[cst.BaseExpression] | None:
    """The literals that a name's value is written in, where nothing but measured calls uses it.

    None: it is not so plain. Refuse: callers give different values, which one would lose.
    """
    if not isinstance(value, cst.Name):
        return None
    made = only_assignment(source, value)
    if made is None or not _used_only_in(source, made, measured):
        return None
    if isinstance(made.node, cst.Param):
        return _of_parameter(source, made.node)
    assigned = value_of(source, made.node)
    return [assigned] if assigned is not None and is_literal(assigned) else None


def clean_dictionary(
    source: Source, value: cst.BaseExpression
) -> tuple[cst.BaseExpression, Sequence[cst.CSTNode]] | None:
    """The `{…}` or `dict(…)` of a name that is only handed on with `**`, and to which calls."""
    if not isinstance(value, cst.Name):
        return (value, ()) if _is_plain(source, value) else None
    made = only_assignment(source, value)
    assigned = None if made is None else value_of(source, made.node)
    if made is None or assigned is None or not _is_plain(source, assigned):
        return None
    uses = [source.parent(access.node) for access in made.references]
    if not all(isinstance(use, cst.Arg) and use.star == "**" for use in uses):
        return None
    calls = [source.parent(use) for use in uses if use is not None]
    return assigned, [call for call in calls if call is not None]


def _is_plain(source: Source, value: cst.BaseExpression) -> bool:
    """Every key can be read."""
    if isinstance(value, cst.Call):
        named = all(arg.keyword is not None for arg in value.args)
        return named and qualified(source, value.func) == "builtins.dict"
    return isinstance(value, cst.Dict) and all(
        isinstance(one, cst.DictElement) and isinstance(one.key, cst.SimpleString)
        for one in value.elements
    )


def _used_only_in(source: Source, made: meta.Assignment, calls: Collection[cst.CSTNode]) -> bool:
    return all(
        any(outer in calls for outer in source.around(access.node)) for access in made.references
    )


def _of_parameter(source: Source, parameter: cst.Param) -> Sequence[cst.BaseExpression] | None:
    function = source.parent(source.parent(parameter) or parameter)
    if not isinstance(function, cst.FunctionDef):
        return None
    calls = callers(source, function)
    if not calls:
        return None
    given = [passed(function, call, parameter) for call in calls]
    said = [value for value in given if value is not None]
    if not said:
        default = parameter.default
        return [default] if default is not None and is_literal(default) else None
    if len(said) < len(given) or not all(same(said[0], value) for value in said):
        raise Refuse(
            f"{function.name.value} is called with different values of {parameter.name.value}, and "
            "was measured with the same one everywhere"
        )
    return said if all(is_literal(value) for value in said) else None


def callers(source: Source, function: cst.FunctionDef) -> list[cst.Call] | None:
    """The calls of a plain function in this file; None: it is used in other ways too."""
    if function.decorators or isinstance(source.scope(function), meta.ClassScope):
        return None
    scope = source.scope(function)
    found = [
        one
        for one in (scope[function.name.value] if scope else ())
        if isinstance(one, meta.Assignment)
    ]
    if [one.node for one in found] != [function]:
        return None
    calls = []
    for access in found[0].references:
        parent = source.parent(access.node)
        if not isinstance(parent, cst.Call) or parent.func is not access.node:
            return None
        calls.append(parent)
    return calls


def passed(
    function: cst.FunctionDef, call: cst.Call, parameter: cst.Param
) -> cst.BaseExpression | None:
    """What the call gives for the parameter; None: nothing. Refuse: that cannot be seen."""
    if any(arg.star for arg in call.args):
        raise Refuse(f"{function.name.value} is called with * or **, so what it gets is not known")
    known = [*function.params.posonly_params, *function.params.params]
    position = next((i for i, one in enumerate(known) if one is parameter), None)
    index = argument(call, parameter.name.value, position)
    return None if index is None else call.args[index].value
