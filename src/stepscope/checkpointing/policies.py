"""Which operators' results a segment keeps although the rest of it is computed again."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from stepscope.checkpointing.policies_kept import Keeping, keeping
from stepscope.errors import UsageError
from stepscope.model.checkpoint_plan import ALL, CHEAP, RECOMPUTED

__all__ = [
    "CHEAPLY",
    "CUSTOM",
    "DEAR_OPERATORS",
    "Contexts",
    "Policy",
    "Recompute",
    "contexts",
    "dear_operators",
    "decides",
    "draws",
    "is_dear",
    "named",
]

# (ctx, op, *args, **kwargs) → torch.utils.checkpoint.CheckpointPolicy
Policy = Callable[..., Any]
# "all", "cheap", a policy of the program's own, or the operators whose results are kept.
Recompute = str | Policy | Sequence[Any]

CUSTOM: Final = "custom"  # how a plan names a policy that the program gave: no file can hold it

# Matrix products, convolutions and attention: most of the time of a step, and few of its bytes.
# Those that this torch does not have are passed over.
DEAR_OPERATORS: Final = frozenset(
    {
        "aten.mm",
        "aten.addmm",
        "aten.bmm",
        "aten.baddbmm",
        "aten.linear",
        "aten._scaled_mm",
        "aten._grouped_mm",
        "aten.convolution",
        "aten._convolution",
        "aten.convolution_overrideable",
        "aten.mkldnn_convolution",
        "aten.cudnn_convolution",
        "aten.miopen_convolution",
        "aten._flash_attention_forward",
        "aten._efficient_attention_forward",
        "aten._scaled_dot_product_flash_attention",
        "aten._scaled_dot_product_flash_attention_for_cpu",
        "aten._scaled_dot_product_efficient_attention",
        "aten._scaled_dot_product_cudnn_attention",
        "aten._scaled_dot_product_fused_attention_overrideable",
    }
)
DROPPING: Final = ("dropout_p", "dropout")


@functools.cache
def dear_operators() -> frozenset[Any]:
    """DEAR_OPERATORS as this torch has them, every overload."""
    import torch

    found: set[Any] = set()
    for name in DEAR_OPERATORS:
        space, _, operator = name.partition(".")
        packet = getattr(getattr(torch.ops, space), operator, None)
        if packet is not None:
            found.update(getattr(packet, overload) for overload in packet.overloads())
    return frozenset(found)


@functools.cache
def _dropout_at(op: Any) -> int | None:
    """Where an operator takes the share that it drops; None: it drops nothing."""
    names = [argument.name for argument in op._schema.arguments]
    return next((names.index(name) for name in DROPPING if name in names), None)


def _draws(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """It drops something in this call, by chance."""
    at = _dropout_at(op)
    if at is None:
        return False
    given = args[at] if at < len(args) else kwargs.get(op._schema.arguments[at].name, 0.0)
    return bool(given)


def is_dear(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """`recompute="cheap"` keeps its result.

    Attention that drops is computed again: a result that is kept takes no random numbers while
    recomputing, and what comes after it would then draw others than in forward.
    """
    return op in dear_operators() and not _draws(op, args, kwargs)


@functools.cache
def decides(op: Any) -> bool:
    """It fills its argument with zeros and ones, by chance: what dropout does on a CPU."""
    import torch

    return bool(op is torch.ops.aten.bernoulli_.float)


def draws(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """It takes random numbers in this call."""
    at = _dropout_at(op)
    return _is_random(op) if at is None else _draws(op, args, kwargs)


@functools.cache
def _is_random(op: Any) -> bool:
    import torch

    return torch.Tag.nondeterministic_seeded in getattr(op, "tags", ())


def keep_dear(_context: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
    """The same as a policy of torch's."""
    from torch.utils.checkpoint import CheckpointPolicy

    if is_dear(op, args, kwargs):
        return CheckpointPolicy.MUST_SAVE
    return CheckpointPolicy.PREFER_RECOMPUTE


CHEAPLY: Final = Keeping(is_dear, decides, draws)  # what `recompute="cheap"` keeps


class Contexts(NamedTuple):
    """What torch.utils.checkpoint takes as `context_fn`. The compiler knows torch's own only."""

    eager: Callable[[], Any]
    compiled: Callable[[], Any]


def contexts(recompute: Recompute) -> Contexts | None:
    """None: everything is computed again."""
    if isinstance(recompute, str):
        if recompute not in RECOMPUTED:
            raise UsageError(
                f"recompute={recompute!r} is not possible: {ALL!r} (everything), {CHEAP!r} (all "
                "but matrix products, convolutions and attention), a policy, or a list of the "
                "operators to keep."
            )
        if recompute == ALL:
            return None
        return Contexts(functools.partial(keeping, CHEAPLY), _selective(keep_dear))
    if not callable(recompute) and not isinstance(recompute, Sequence):
        raise UsageError(f"recompute={recompute!r} is neither a word, a policy nor a list.")
    torchs = _selective(recompute if callable(recompute) else _checked(list(recompute)))
    return Contexts(torchs, torchs)


def _checked(operators: list[Any]) -> list[Any]:
    from torch._ops import HigherOrderOperator, OpOverload

    for operator in operators:
        if not isinstance(operator, (OpOverload, HigherOrderOperator)):
            raise UsageError(
                f"{operator!r} is no operator of torch that can be kept. They look like "
                "torch.ops.aten.mm.default, with the overload at the end."
            )
    return operators


def _selective(policy: Policy | list[Any]) -> Callable[[], Any]:
    from torch.utils.checkpoint import create_selective_checkpoint_contexts

    return functools.partial(create_selective_checkpoint_contexts, policy)


def named(recompute: Recompute) -> str:
    """As a plan has it."""
    return recompute if isinstance(recompute, str) else CUSTOM
