"""What a name in the user's file stands for."""

from __future__ import annotations

from typing import NamedTuple

import libcst as cst
from libcst import metadata as meta

from stepscope.tune.patch.source import Source

__all__ = ["Constructor", "assignments", "constructor", "only_assignment", "qualified", "value_of"]

_MOST_ALIASES = 5


class Constructor(NamedTuple):
    """What a call makes.

    full: the dotted name of the class, of torch's own where one of this file derives from it.
    before: how many of the constructor's positional arguments are given before those of the call
    (by `partial`), -1: the call's first is `self`. partial: keywords may be given there too.
    """

    full: str
    before: int = 0
    partial: bool = False

    @property
    def name(self) -> str:
        return self.full.rpartition(".")[2]

    @property
    def is_torchs(self) -> bool:
        """So the positions of its arguments are known."""
        return self.full.startswith("torch.")


def qualified(source: Source, node: cst.CSTNode) -> str | None:
    """The full dotted name by this file's imports and definitions."""
    scope = source.scope(node)
    names = sorted(one.name for one in scope.get_qualified_names_for(node)) if scope else []
    return names[0] if names else None


def assignments(source: Source, name: cst.Name) -> list[meta.Assignment]:
    """Everything in this file that gives this name its value."""
    scope = source.scope(name)
    found = scope[name.value] if scope else ()
    return [one for one in found if isinstance(one, meta.Assignment)]


def only_assignment(source: Source, name: cst.Name) -> meta.Assignment | None:
    """None: there is none, or more than one."""
    found = assignments(source, name)
    return found[0] if len(found) == 1 else None


def value_of(source: Source, target: cst.CSTNode) -> cst.BaseExpression | None:
    """What is assigned to a name or attribute by a statement of its own."""
    parent = source.parent(target)
    if isinstance(parent, cst.AssignTarget):
        outer = source.parent(parent)
        if isinstance(outer, cst.Assign) and len(outer.targets) == 1:
            return outer.value
    if isinstance(parent, cst.AnnAssign | cst.NamedExpr) and parent.target is target:
        return parent.value
    return None


def constructor(source: Source, call: cst.Call) -> Constructor | None:
    """The class whose constructor the call is, through aliases, subclasses and partial."""
    func = call.func
    if isinstance(func, cst.Attribute) and func.attr.value == "__init__":
        return _explicit(source, func.value)
    return _of(source, func)


def _explicit(source: Source, owner: cst.BaseExpression) -> Constructor | None:
    """`super().__init__(…)` and `DataLoader.__init__(self, …)`."""
    if isinstance(owner, cst.Call) and qualified(source, owner.func) == "builtins.super":
        inside = source.enclosing(owner, cst.ClassDef)
        return None if inside is None else _base(source, inside)
    found = _of(source, owner)
    return None if found is None else found._replace(before=-1)


def _of(source: Source, func: cst.BaseExpression, depth: int = 0) -> Constructor | None:
    if depth > _MOST_ALIASES:
        return None
    if isinstance(func, cst.Call):
        return _partial(source, func, depth)
    if isinstance(func, cst.Subscript):  # DataLoader[int]
        return _of(source, func.value, depth + 1)
    if isinstance(func, cst.Name) and assignments(source, func):
        found = _defined(source, func, depth)
        if found is not None or not _imported(source, func):
            return found
    if not isinstance(func, cst.Name | cst.Attribute):
        return None
    return Constructor(qualified(source, func) or source.code(func))


def _imported(source: Source, name: cst.Name) -> bool:
    return all(isinstance(one, meta.ImportAssignment) for one in assignments(source, name))


def _defined(source: Source, name: cst.Name, depth: int) -> Constructor | None:
    """A class of this file, or another name for one."""
    made = only_assignment(source, name)
    if made is None or isinstance(made, meta.ImportAssignment):
        return None
    if isinstance(made.node, cst.ClassDef):
        if any(_is_init(one) for one in made.node.body.body):
            return None  # its own constructor takes what it likes
        return _base(source, made.node)
    value = value_of(source, made.node)
    return None if value is None else _of(source, value, depth + 1)


def _is_init(statement: cst.CSTNode) -> bool:
    return isinstance(statement, cst.FunctionDef) and statement.name.value == "__init__"


def _base(source: Source, derived: cst.ClassDef) -> Constructor | None:
    """Torch's class among the bases, else the first that is a name."""
    found = [_of(source, base.value, 1) for base in derived.bases]
    known = [one for one in found if one is not None]
    return max(known, key=lambda one: one.is_torchs, default=None)


def _partial(source: Source, call: cst.Call, depth: int) -> Constructor | None:
    """`partial(DataLoader, …)`: keywords of the later call win, positions go on from its own."""
    name = qualified(source, call.func) or ""
    if name.rpartition(".")[2] != "partial" or not call.args or call.args[0].star:
        return None
    found = _of(source, call.args[0].value, depth + 1)
    given = [arg for arg in call.args[1:] if arg.keyword is None and arg.star != "**"]
    if found is None or any(arg.star for arg in given):
        return None
    return found._replace(before=found.before + len(given), partial=True)
