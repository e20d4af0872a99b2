"""Writes changes of the model and of its call: layout, autocast, compile."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import libcst as cst

from stepscope.model.change import Applied, Change
from stepscope.tune.patch.arguments import argument, atom, set_argument
from stepscope.tune.patch.models import model_call, origin_of, place_after
from stepscope.tune.patch.names import assignments
from stepscope.tune.patch.source import Refuse, Source
from stepscope.tune.patch.torch_name import torch_name

__all__ = ["write_autocast", "write_compile", "write_layout", "write_model_float"]

_DTYPES = ("bfloat16", "float16")


def write_layout(source: Source, change: Change, sites: Sequence[Applied]) -> None:
    for site in sites:
        call = model_call(source, site)
        image = _only_input(source, call)
        _behind_model(source, call, "{model} = {model}.to(memory_format={torch}.channels_last)")
        last = f"{torch_name(source, call)}.channels_last"
        if not _is_collection(source, image.value):
            source.change(image, partial(_in_format, last), "layout")
        source.note(call, "if images come out of it, call .contiguous() before .view() on them.")


def _only_input(source: Source, call: cst.Call) -> cst.Arg:
    positional = [arg for arg in call.args if arg.keyword is None]
    inputs = positional or call.args
    if len(inputs) != 1 or inputs[0].star:
        raise Refuse(f"which argument of the call at {source.where(call)} is images is not known")
    return inputs[0]


def _is_collection(source: Source, value: cst.BaseExpression) -> bool:
    """A dictionary of tensors: `batch["image"]` stands somewhere."""
    if not isinstance(value, cst.Name):
        return False
    uses = [source.parent(use.node) for one in assignments(source, value) for use in one.references]
    keys = [
        element.slice.value
        for use in uses
        if isinstance(use, cst.Subscript)
        for element in use.slice
        if isinstance(element.slice, cst.Index)
    ]
    return any(isinstance(key, cst.SimpleString) for key in keys)


def _in_format(last: str, arg: cst.Arg) -> cst.Arg:
    wanted = cst.parse_expression(last)
    value = arg.value
    if isinstance(value, cst.Call) and _is_to(value) and not any(one.star for one in value.args):
        if argument(value, "memory_format") is not None:
            return arg
        return arg.with_changes(value=set_argument(value, "memory_format", lambda _: wanted))
    to = cst.Attribute(atom(value), cst.Name("to"))
    return arg.with_changes(value=set_argument(cst.Call(to), "memory_format", lambda _: wanted))


def _is_to(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value == "to"


def write_compile(source: Source, change: Change, sites: Sequence[Applied]) -> None:
    options = {key: change.settings[key] for key in ("mode", "backend") if change.settings.get(key)}
    words = ", ".join(f"{key}={value!r}" for key, value in options.items())
    for site in sites:
        _behind_model(source, model_call(source, site), "{model}.compile(" + words + ")")


def write_model_float(source: Source, site: Applied) -> None:
    _behind_model(source, model_call(source, site), "{model} = {model}.float()")


def _behind_model(source: Source, call: cst.Call, line: str) -> None:
    origin = origin_of(source, call.func)
    place = place_after(source, origin, call)
    if "{torch}" in line:
        line = line.replace("{torch}", torch_name(source, place))
    source.insert_after(place, line.replace("{model}", origin.name))


def write_autocast(source: Source, change: Change, sites: Sequence[Applied]) -> None:
    dtype = change.settings.get("dtype", "bfloat16")
    if dtype not in _DTYPES:
        raise Refuse(f"autocast to {dtype} cannot be written")
    for site in sites:
        call = model_call(source, site)
        if _is_in_autocast(source, call):
            continue
        statement = _own_statement(source, call)
        torch = torch_name(source, call)
        device = f"next({source.code(call.func)}.parameters()).device.type"
        head = f"{torch}.autocast(device_type={device}, dtype={torch}.{dtype})"
        source.change(statement, partial(_within, head), "autocast")
        source.note(call, f"what the model gives is {dtype} now: .float() makes it float32 again.")


def _is_in_autocast(source: Source, call: cst.Call) -> bool:
    blocks = [one for one in source.around(call) if isinstance(one, cst.With)]
    return any("autocast" in source.code(item.item) for one in blocks for item in one.items)


def _own_statement(source: Source, call: cst.Call) -> cst.SimpleStatementLine:
    """Refuse: the call is in a larger statement, or in one that autocast must not be around."""
    for outer in source.around(call):
        if isinstance(outer, cst.SimpleStatementLine):
            code = source.code(outer)
            if ".backward(" in code or "yield" in code:
                raise Refuse(f"{source.where(call)} does more than call the model")
            return outer
        if isinstance(outer, cst.BaseCompoundStatement | cst.Lambda | cst.SimpleStatementSuite):
            break
    raise Refuse(f"the model's call at {source.where(call)} is no statement of its own")


def _within(head: str, statement: cst.SimpleStatementLine) -> cst.With:
    return cst.With(
        [cst.WithItem(cst.parse_expression(head))],
        cst.IndentedBlock([statement.with_changes(leading_lines=[])]),
        leading_lines=statement.leading_lines,
    )
