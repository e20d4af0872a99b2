"""Gives a call's argument a value, wherever the program says it."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import libcst as cst

from stepscope.tune.patch.arguments import (
    Made,
    argument,
    atom,
    entry,
    in_place,
    is_literal,
    mappings,
    set_argument,
    set_entry,
    starred,
)
from stepscope.tune.patch.flows import clean_dictionary, literal_places
from stepscope.tune.patch.names import Constructor
from stepscope.tune.patch.source import Refuse, Source

__all__ = ["Wanted", "given", "settle"]


class Wanted(NamedTuple):
    """position: of the argument in the constructor, None: it is given by its name alone.
    constant: what is made does not depend on what stood there."""

    key: str
    made: Made
    position: int | None = None
    constant: bool = True


def settle(
    source: Source,
    call: cst.Call,
    wanted: Wanted,
    maker: Constructor,
    measured: Collection[cst.CSTNode],
) -> None:
    """measured: all calls that the trial changed in this file. Refuse: it cannot be given."""
    wanted = _in_this_call(call, wanted, maker)
    index = argument(call, wanted.key, wanted.position)
    if index is not None:
        _replace(source, call, wanted, call.args[index].value, measured)
    elif starred(call, wanted.position):
        raise Refuse(f"{wanted.key} may be in the * arguments of the call at {source.where(call)}")
    elif mappings(call):
        _in_mapping(source, call, wanted, measured)
    else:
        source.change(call, lambda one: set_argument(one, wanted.key, wanted.made), wanted.key)


def given(call: cst.Call, wanted: Wanted, maker: Constructor) -> bool:
    """Whether the call itself says the argument."""
    position = _in_this_call(call, wanted, maker).position
    return argument(call, wanted.key, position) is not None


def _in_this_call(call: cst.Call, wanted: Wanted, maker: Constructor) -> Wanted:
    """With the position that the argument has among those of this call."""
    if wanted.position is None:
        return wanted
    if maker.before > wanted.position:
        raise Refuse(f"{wanted.key} is given without its name where the constructor is wrapped")
    positional = [arg for arg in call.args if arg.keyword is None and not arg.star]
    position = wanted.position - maker.before
    if not maker.is_torchs and len(positional) > max(position, 0) >= 1:
        raise Refuse(f"what the arguments of {maker.name} mean is not known: give them by name")
    return wanted._replace(position=position)


def _replace(
    source: Source,
    call: cst.Call,
    wanted: Wanted,
    old: cst.BaseExpression,
    measured: Collection[cst.CSTNode],
) -> None:
    wanted.made(old)  # Refuse, where there is no such value
    if ":=" in source.code(old):
        raise Refuse(f"{wanted.key} is given at {source.where(call)} by := and used elsewhere")
    if wanted.constant and not is_literal(old):
        places = literal_places(source, old, measured)
        for place in places or ():
            source.change(place, lambda one: in_place(one, wanted.made), wanted.key)
        if places:
            return
        _note_lost(source, old, wanted)
    position = wanted.position
    source.change(
        call, lambda one: set_argument(one, wanted.key, wanted.made, position), wanted.key
    )


def _note_lost(source: Source, old: cst.BaseExpression, wanted: Wanted) -> None:
    new = source.code(wanted.made(old))
    if source.code(old) != new:
        was = source.code(old)
        source.note(old, f"{wanted.key} was {was} and is {new} now, whatever {was} says.")


def _in_mapping(
    source: Source, call: cst.Call, wanted: Wanted, measured: Collection[cst.CSTNode]
) -> None:
    key, made = wanted.key, wanted.made
    if len(mappings(call)) > 1:
        raise Refuse(f"{key} may be in any of the ** arguments of the call at {source.where(call)}")
    (mapping,) = mappings(call)
    known = clean_dictionary(source, mapping.value)
    if known is None:
        source.change(mapping, lambda arg: _overridden(arg, wanted), key)
        return
    dictionary, uses = known
    old = entry(dictionary, key)
    if old is None:
        source.change(call, lambda one: set_argument(one, key, made), key)
    elif all(use in measured for use in uses):
        made(old)  # Refuse, where there is no such value
        if wanted.constant and not is_literal(old):
            _note_lost(source, old, wanted)
        source.change(dictionary, lambda one: set_entry(one, key, made), key)
    else:
        source.change(mapping, lambda arg: _overridden(arg, wanted), key)


def _overridden(arg: cst.Arg, wanted: Wanted) -> cst.Arg:
    """`**options` → `**{**options, "num_workers": 2}`: what is in the dictionary is not known."""
    value = arg.value
    if not isinstance(value, cst.Dict) or not _is_override(value):
        value = cst.Dict([cst.StarredDictElement(value)])
    inner = cst.Module([]).code_for_node(atom(value.elements[0].value))
    unsaid = None if wanted.constant else cst.parse_expression(f'{inner}.get("{wanted.key}", 1)')
    return arg.with_changes(
        value=set_entry(value, wanted.key, lambda said: wanted.made(said or unsaid))
    )


def _is_override(value: cst.Dict) -> bool:
    """`{**options, "num_workers": 2}`: the later ones count."""
    stars = [isinstance(one, cst.StarredDictElement) for one in value.elements]
    return stars[:1] == [True] and not any(stars[1:])
