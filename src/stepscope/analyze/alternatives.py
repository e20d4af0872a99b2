"""What another dtype or layout would save: which are worth a try, and what the try gave."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from stepscope.analyze.evidence import Evidence
from stepscope.analyze.words import duration
from stepscope.model import traits
from stepscope.model.details import LayerTime
from stepscope.model.kinds import KINDS, Signal
from stepscope.model.op_log import is_partial, tensors
from stepscope.model.phases import Phase

__all__ = [
    "NOT_TRIED",
    "Saving",
    "bfloat16_by",
    "convolutions_of",
    "convolutions_share",
    "saving",
    "tried",
    "worth_a_try",
]

_COMPUTE = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)
_NARROWER = frozenset(("float32", "bfloat16"))
# Half the bytes to move and twice the numbers in a vector: what was float64 takes half at least.
_LEAST_LEFT = {"float32": 0.5}
LONG_NS = 60_000_000_000
_Logged: TypeAlias = Sequence[tuple[Mapping[str, Any], int]]
NOT_TRIED = "What it would save was not measured. To measure it: stepscope run --replay full …"


class Saving(NamedTuple):
    """Of the loop's time, and how it was found."""

    share: float
    said: str
    op: str | None
    ratio: float  # of the time of the operators that it touches, what is left


def worth_a_try(evidence: Evidence, logged: Sequence[tuple[Mapping[str, Any], int]]) -> list[str]:
    """Alternatives (collect/replay.py) that could matter: running operators again takes seconds."""
    devices = {tensor.get("device", "cpu") for spec, _ in logged for tensor in tensors(spec)}
    if devices - {"cpu"}:
        return []  # on a device, operators return before they are done: that is not timed yet
    if any(is_partial(spec) for spec, _ in logged):
        # Only a part of the step was seen: enough to know what an operator of it is like.
        reasons = {name: _REASONS[name] for name in ("only_work", "fused_optimizer")}
    else:
        reasons = _REASONS
    found = [name for name, is_worth in reasons.items() if is_worth(evidence, logged)]
    return [*found, "nothing"] if _NARROWER.intersection(found) else found


def _has_doubles(evidence: Evidence, _: _Logged) -> bool:
    return bool((evidence.trait(traits.DTYPES) or {}).get("float64"))


def _has_subnormals(evidence: Evidence, logged: _Logged) -> bool:
    flushed = evidence.trait(traits.FLUSHES_DENORMALS)
    return not flushed and any(
        tensor.get("subnormal") for spec, _ in logged for tensor in tensors(spec)
    )


def _has_other_layout(evidence: Evidence, _: _Logged) -> bool:
    seen = evidence.trait(traits.CONV_LAYOUT) or {}
    if seen.get("channels_last", 0) >= seen.get("convolutions", 0) or seen.get("dims", 4) != 4:
        return False
    of_step = convolutions_share(evidence)
    return of_step is None or of_step >= KINDS["layout"].moderate_share


def _has_products(evidence: Evidence, _: _Logged) -> bool:
    """In float32 on hardware that has bfloat16."""
    dtypes = evidence.trait(traits.DTYPES) or {}
    return bool(
        _has_time(evidence)
        and bfloat16_by(evidence)
        and dtypes.get("float32", 0.0) >= 0.5
        and not evidence.trait(traits.AUTOCAST)
    )


def _has_short_operators(evidence: Evidence, logged: _Logged) -> bool:
    calls = sum(count for _, count in logged)
    computed_us = evidence.whole.share(*_COMPUTE) * evidence.whole.step_ns / 1e3
    return bool(calls) and computed_us / calls < Signal.SHORT_OP_US


def _has_single_updates(evidence: Evidence, _: _Logged) -> bool:
    """An optimizer that updates its parameters one by one, and takes its time."""
    flags = evidence.trait(traits.OPTIMIZERS)
    slow = any(not one.get("fused") for one in flags) if isinstance(flags, list) else False
    share = evidence.whole.share(Phase.OPTIMIZER)
    return slow and share >= KINDS["optimizer"].moderate_share and _has_time(evidence)


def _has_time(evidence: Evidence) -> bool:
    """For what is an opportunity and no fault: with operators profiled, or in a long run."""
    return bool(evidence.details.ops) or evidence.whole.wall_ns >= LONG_NS


_REASONS: dict[str, Callable[[Evidence, _Logged], bool]] = {
    "float32": _has_doubles,
    "no_subnormals": _has_subnormals,
    "flush_denormals": _has_subnormals,
    "channels_last": _has_other_layout,
    "bfloat16": _has_products,
    "only_work": _has_short_operators,
    "fused_optimizer": _has_single_updates,
}


def saving(evidence: Evidence, name: str) -> Saving | None:
    """What was measured; None: it was not tried. A share below 0: it would cost."""
    one, step_ms = tried(evidence, name), evidence.whole.step_ns / 1e6
    if one is None or not step_ms:
        return None
    now_ms = float(one["now_ms"])
    then_ms = max(float(one["then_ms"]), now_ms * _LEAST_LEFT.get(name, 0.0))
    computed_ms = evidence.whole.share(*_COMPUTE) * step_ms
    # Alone and warm they are as fast as they get: no more is claimed than they took in the step.
    scale = min(1.0, computed_ms / now_ms)
    everything = tried(evidence, "nothing") if name in _NARROWER else None
    if everything is not None:
        # Fewer bytes are quicker to come and go, too: their part of the computation shrinks.
        scale = computed_ms / max(now_ms, float(everything["now_ms"]))
    said = (
        f"{duration(then_ms * scale * 1e6)} instead of {duration(now_ms * scale * 1e6)} of each"
        f" step, by running {_count(one.get('ops'))} of it again after training."
    )
    share = (now_ms - then_ms) * scale / step_ms
    return Saving(share, said, one.get("dearest") or None, then_ms / now_ms)


def tried(evidence: Evidence, name: str) -> Mapping[str, Any] | None:
    """What running operators again gave for it."""
    found = evidence.trait(traits.ALTERNATIVES)
    one = found.get(name) if isinstance(found, Mapping) else None
    return one if isinstance(one, Mapping) and one.get("now_ms") else None


def _count(ops: Any) -> str:
    return "1 operator" if ops == 1 else f"{ops or 0:g} operators"


def bfloat16_by(evidence: Evidence) -> str | None:
    """The part of the machine that has it."""
    if evidence.whole.resources.gpus:
        return "its GPU"
    features = evidence.trait(traits.CPU_FEATURES) or ()
    return next((name for name in ("amx_bf16", "avx512_bf16") if name in features), None)


def convolutions_share(evidence: Evidence) -> float | None:
    """Of the loop, by layers or by operators; None: neither was timed."""
    layers = convolutions_of(evidence.details.layers)
    step_ms = evidence.whole.step_ns / 1e6
    if layers and step_ms:
        return sum(x.self_forward_ms + (x.self_backward_ms or 0.0) for x in layers) / step_ms
    ops = [op for op in evidence.details.ops if "conv" in op.name]
    return sum(op.self_ms for op in ops) / step_ms if ops and step_ms else None


def convolutions_of(layers: Sequence[LayerTime]) -> list[LayerTime]:
    return [layer for layer in layers if "Conv" in layer.kind]
