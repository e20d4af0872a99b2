"""Writes changes of a single call on tensors: zero-grad, non-blocking, float32, recompute."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import libcst as cst

from stepscope.model.change import Applied, Change
from stepscope.tune.patch.arguments import argument, atom, constantly, set_argument
from stepscope.tune.patch.calls import calls_at
from stepscope.tune.patch.forward import write_model_float
from stepscope.tune.patch.names import qualified
from stepscope.tune.patch.source import Refuse, Source

__all__ = ["write_float32", "write_non_blocking", "write_recompute", "write_zero_grad"]

# What torch.utils.checkpoint takes for itself; the rest goes to the function.
_OF_CHECKPOINT = (
    "use_reentrant",
    "preserve_rng_state",
    "context_fn",
    "determinism_check",
    "debug",
    "early_stop",
)


def write_zero_grad(source: Source, change: Change, sites: Sequence[Applied]) -> None:
    for site in sites:
        for call in calls_at(
            source, site, lambda c: _method(c) == "zero_grad", "call of zero_grad"
        ):
            _check_no_star(source, call)
            if argument(call, "set_to_none", 0) is not None:
                source.change(
                    call, lambda one: set_argument(one, "set_to_none", constantly(True), 0), "none"
                )


def write_non_blocking(source: Source, change: Change, sites: Sequence[Applied]) -> None:
    for site in sites:
        for call in calls_at(source, site, _moves, "call of .to() or .cuda() to another device"):
            _check_no_star(source, call)
            # The only truth value among the arguments of .to() and .cuda() is this.
            place = next((i for i, arg in enumerate(call.args) if _is_truth(arg)), None)
            source.change(call, partial(_not_blocking, place), "non_blocking")


def _not_blocking(place: int | None, call: cst.Call) -> cst.Call:
    return set_argument(call, "non_blocking", constantly(True), place)


def _moves(call: cst.Call) -> bool:
    """Copies to the host are left alone: what reads them has to wait."""
    if _method(call) == "cuda":
        return True
    to_host = any(
        isinstance(arg.value, cst.SimpleString) and arg.value.evaluated_value == "cpu"
        for arg in call.args
    )
    return _method(call) == "to" and bool(call.args) and not to_host


def _is_truth(arg: cst.Arg) -> bool:
    return (
        arg.keyword is None
        and isinstance(arg.value, cst.Name)
        and arg.value.value in ("True", "False")
    )


def _method(call: cst.Call) -> str | None:
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else None


def _check_no_star(source: Source, call: cst.Call) -> None:
    if any(arg.star for arg in call.args):
        raise Refuse(f"the call at {source.where(call)} takes its arguments from * or **")


def write_float32(source: Source, change: Change, sites: Sequence[Applied]) -> None:
    """Where the trial made float32 of it: as the program says float64, or of what it is given."""
    for site in sites:
        if site.what == "model.float()":
            write_model_float(source, site)
            continue
        maker = site.what.removesuffix("(…).float()") if site.what.endswith("(…).float()") else ""
        fits = partial(_gives_double, source, maker)
        for call in calls_at(source, site, fits, "call that makes float64"):
            _to_single(source, call)
    source.note(source.module.body[0], "run it once: float64 that is left fails beside float32.")


def _gives_double(source: Source, maker: str, call: cst.Call) -> bool:
    """maker: a function of torch that takes on the dtype of what it is given ("from_numpy")."""
    if _doubles(source, call) or (_method(call) == "double" and not call.args):
        return True
    name = qualified(source, call.func) or source.code(call.func)
    return bool(maker) and name.rpartition(".")[2] == maker


def _to_single(source: Source, call: cst.Call) -> None:
    named = _doubles(source, call)
    for name in named:
        if isinstance(name, cst.Name):
            raise Refuse(f"{name.value} at {source.where(call)} is float64 under another name")
        source.change(name, _renamed, "float32")
    if _method(call) == "double" and not call.args:
        source.change(call, _float_method, "float32")
    elif not named and not _is_followed_by_float(source, call):
        source.change(call, _then_float, "float32")


def _is_followed_by_float(source: Source, call: cst.Call) -> bool:
    parent = source.parent(call)
    return isinstance(parent, cst.Attribute) and parent.attr.value == "float"


def _then_float(call: cst.Call) -> cst.Call:
    return cst.Call(cst.Attribute(call, cst.Name("float")))


def _float_method(call: cst.Call) -> cst.Call:
    return call.with_deep_changes(call.func, attr=cst.Name("float"))


def _doubles(source: Source, call: cst.Call) -> list[cst.BaseExpression]:
    """The arguments that are torch.float64, torch.double or numpy's float64."""
    known = ("torch.float64", "torch.double", "numpy.float64", "numpy.double")
    values = [arg.value for arg in call.args]
    return [one for one in values if qualified(source, one) in known or _is_text(one, "float64")]


def _is_text(node: cst.CSTNode, text: str) -> bool:
    return isinstance(node, cst.SimpleString) and node.evaluated_value == text


def _renamed(node: cst.BaseExpression) -> cst.BaseExpression:
    if isinstance(node, cst.Attribute):
        return node.with_changes(attr=cst.Name("float32"))
    assert isinstance(node, cst.SimpleString)
    return node.with_changes(value=node.value.replace("float64", "float32"))


def write_recompute(source: Source, change: Change, sites: Sequence[Applied]) -> None:
    """`checkpoint(block, x, use_reentrant=False)` becomes `block(x)`."""
    for site in sites:
        found = calls_at(source, site, lambda c: _is_checkpoint(source, c), "call of checkpoint()")
        for call in found:
            if not call.args or call.args[0].star or call.args[0].keyword is not None:
                raise Refuse(f"what is recomputed is not said first at {source.where(call)}")
            if any(arg.star == "**" for arg in call.args):
                raise Refuse(f"the call at {source.where(call)} takes its arguments from **")
            source.change(call, _without_checkpoint, "recompute")


def _is_checkpoint(source: Source, call: cst.Call) -> bool:
    name = qualified(source, call.func) or source.code(call.func)
    return name == "checkpoint" or (name.startswith("torch.") and name.endswith(".checkpoint"))


def _without_checkpoint(call: cst.Call) -> cst.Call:
    function, *rest = call.args
    kept = [a for a in rest if a.keyword is None or a.keyword.value not in _OF_CHECKPOINT]
    if kept and kept[-1] is not call.args[-1]:
        last = call.args[-1]
        kept[-1] = kept[-1].with_changes(
            comma=last.comma, whitespace_after_arg=last.whitespace_after_arg
        )
    return call.with_changes(func=atom(function.value), args=kept)
