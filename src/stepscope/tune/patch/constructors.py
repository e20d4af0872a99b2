"""Writes changes that are arguments of a constructor: loader, batch, optimizer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import libcst as cst

from stepscope.model.change import Applied, Change
from stepscope.tune.patch.arguments import (
    Made,
    argument,
    atom,
    constantly,
    entry,
    is_literal,
    mappings,
)
from stepscope.tune.patch.calls import calls_at
from stepscope.tune.patch.flows import callers, clean_dictionary
from stepscope.tune.patch.names import Constructor, constructor
from stepscope.tune.patch.settle import Wanted, given, settle
from stepscope.tune.patch.source import Refuse, Source

__all__ = [
    "FOREACH_POSITIONS",
    "LOADER_POSITIONS",
    "write_batch",
    "write_loader",
    "write_optimizer",
]

# Where torch's constructors take an argument without its name, `self` not counted.
LOADER_POSITIONS: Final = {
    "batch_size": 1,
    "batch_sampler": 4,
    "num_workers": 5,
    "pin_memory": 7,
    "timeout": 9,
    "multiprocessing_context": 11,
}
FOREACH_POSITIONS: Final = {"Adadelta": 5, "Adagrad": 6, "Adamax": 5, "ASGD": 6, "RMSprop": 8}
_WRITTEN = (
    "num_workers",
    "prefetch_factor",
    "persistent_workers",
    "pin_memory",
    "in_order",
    "multiprocessing_context",
)
# What torch refuses beside num_workers=0, and what it takes instead.
_WITHOUT_WORKERS: Final = {
    "prefetch_factor": None,
    "persistent_workers": False,
    "timeout": 0,
    "multiprocessing_context": None,
}

_Found = list[tuple[cst.Call, Constructor]]


def write_loader(source: Source, change: Change, sites: Sequence[Applied]) -> None:
    found = _loaders(source, sites)
    for call, maker in found:
        _note_shared(source, call)
        for key in (key for key in _WRITTEN if key in change.settings):
            _settle(source, (call, maker), key, constantly(change.settings[key]), found)
        if change.settings.get("num_workers") == 0:
            _drop_what_needs_workers(source, (call, maker), change, found)


def _note_shared(source: Source, call: cst.Call) -> None:
    factory = source.enclosing(call, cst.FunctionDef)
    calls = None if factory is None else callers(source, factory)
    if factory is not None and calls is not None and len(calls) > 1:
        source.note(call, f"every loader that {factory.name.value} makes is changed with it.")


def _drop_what_needs_workers(
    source: Source, one: tuple[cst.Call, Constructor], change: Change, found: _Found
) -> None:
    for key, value in _WITHOUT_WORKERS.items():
        wanted = Wanted(key, constantly(value), LOADER_POSITIONS.get(key))
        if key not in change.settings and given(one[0], wanted, one[1]):
            _settle(source, one, key, constantly(value), found)


def write_batch(source: Source, change: Change, sites: Sequence[Applied]) -> None:
    factor = change.settings.get("factor")
    if not isinstance(factor, int) or factor < 2:
        raise Refuse(f"a batch of {factor} times its size cannot be written")
    found = _loaders(source, sites)
    for call, maker in found:
        sampler = Wanted("batch_sampler", constantly(None), LOADER_POSITIONS["batch_sampler"])
        if given(call, sampler, maker):
            raise Refuse(f"batches are made by the batch_sampler at {source.where(call)}")
        size = Wanted("batch_size", constantly(None), LOADER_POSITIONS["batch_size"])
        if maker.partial and not given(call, size, maker):
            raise Refuse(f"batch_size is not said in the call at {source.where(call)}")
        _settle(source, (call, maker), "batch_size", _times(factor), found, constant=False)
        _note_shared(source, call)
        source.note(call, f"batches are {factor} times as large: look at the learning rate again.")


def _times(factor: int) -> Made:
    def made(old: cst.BaseExpression | None) -> cst.BaseExpression:
        if old is None:
            return cst.Integer(str(factor))  # torch's own batch_size is 1
        if isinstance(old, cst.Integer):
            return cst.Integer(str(factor * old.evaluated_value))
        if is_literal(old):
            raise Refuse(f"a batch_size of {cst.Module([]).code_for_node(old)} has no multiple")
        return cst.BinaryOperation(cst.Integer(str(factor)), cst.Multiply(), atom(old))

    return made


def _loaders(source: Source, sites: Sequence[Applied]) -> _Found:
    found = _constructors(source, sites, lambda one: one.name == "DataLoader", "DataLoader")
    for site in sites:
        here = [call for call, _ in found if source.lines(call)[0] == site.line]
        if len(here) > 1:
            raise Refuse(f"several loaders are made at {source.where(here[0])}: give each its line")
    return found


def write_optimizer(source: Source, change: Change, sites: Sequence[Applied]) -> None:
    for site in sites:
        # "AdamW(fused=True)": which class the line made, as the trial saw it.
        name = site.what.partition("(")[0].strip()
        found = _constructors(source, [site], partial(_is_optimizer, name), name)
        for call, maker in found:
            for key, value in change.settings.items():
                _settle_way(source, (call, maker), key, value, found)


def _is_optimizer(name: str, maker: Constructor) -> bool:
    """name: of the object's class, which may derive from torch's."""
    return maker.name == name or maker.full.startswith("torch.optim.")


def _settle_way(
    source: Source, one: tuple[cst.Call, Constructor], key: str, value: object, found: _Found
) -> None:
    """Only one of the ways can be chosen: ours takes the place of the program's."""
    call, maker = one
    other = "foreach" if key == "fused" else "fused"
    said = argument(call, other) is not None
    if said and argument(call, key) is None and not mappings(call):
        source.change(call, lambda old: _renamed(old, other, key), f"{other}→{key}")
    elif said or _may_be_in_mapping(source, call, other) or _by_position(call, maker, other):
        _settle(source, one, other, constantly(False), found)
    _settle(source, one, key, constantly(value), found)


def _may_be_in_mapping(source: Source, call: cst.Call, key: str) -> bool:
    for mapping in mappings(call):
        known = clean_dictionary(source, mapping.value)
        if known is None or entry(known[0], key) is not None:
            return True
    return False


def _by_position(call: cst.Call, maker: Constructor, key: str) -> bool:
    if key != "foreach":
        return False
    return given(call, Wanted(key, constantly(False), FOREACH_POSITIONS.get(maker.name)), maker)


def _renamed(call: cst.Call, old: str, new: str) -> cst.Call:
    index = argument(call, old)
    if index is None:
        return call
    args = [*call.args]
    args[index] = args[index].with_changes(keyword=cst.Name(new))
    return call.with_changes(args=args)


def _constructors(
    source: Source, sites: Sequence[Applied], is_meant: Callable[[Constructor], bool], name: str
) -> _Found:
    makers: dict[cst.Call, Constructor] = {}

    def fits(call: cst.Call) -> bool:
        maker = constructor(source, call)
        if maker is None or not is_meant(maker):
            return False
        makers[call] = maker
        return True

    wanted = f"call of {name} by its name"
    calls = [call for site in sites for call in calls_at(source, site, fits, wanted)]
    return [(call, makers[call]) for call in dict.fromkeys(calls)]


def _settle(
    source: Source,
    one: tuple[cst.Call, Constructor],
    key: str,
    made: Made,
    found: _Found,
    *,
    constant: bool = True,
) -> None:
    call, maker = one
    position = LOADER_POSITIONS.get(key)
    if key == "foreach":
        position = FOREACH_POSITIONS.get(maker.name)
    settle(source, call, Wanted(key, made, position, constant), maker, [c for c, _ in found])
