"""What another dtype or layout would save: which are worth a try, and what the try gave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from stepscope.analyze.evidence import Evidence
from stepscope.analyze.words import duration
from stepscope.model import traits
from stepscope.model.details import LayerTime
from stepscope.model.kinds import KINDS, Signal
from stepscope.model.phases import Phase

__all__ = ["NOT_TRIED", "Saving", "bfloat16_by", "convolutions_share", "saving", "worth_a_try"]

_COMPUTE = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)
NOT_TRIED = "What it would save was not measured: the operators of a step were not run again."


class Saving(NamedTuple):
    """Of the loop's time, and how it was found."""

    share: float
    said: str
    op: str | None
    ratio: float  # of the time of the operators that it touches, what is left


def worth_a_try(evidence: Evidence) -> list[str]:
    """Alternatives (collect/replay.py) that could matter: running operators again takes seconds."""
    found = []
    dtypes = evidence.trait(traits.DTYPES) or {}
    least = KINDS["layout"].moderate_share
    if dtypes.get("float64"):
        found.append("float32")
    if (evidence.trait(traits.DENORMAL_SHARE) or 0.0) >= Signal.DENORMAL_SHARE and not (
        evidence.trait(traits.FLUSHES_DENORMALS)
    ):
        found.append("flush_denormals")
    seen = evidence.trait(traits.CONV_LAYOUT) or {}
    convolutions = convolutions_share(evidence)
    if (
        seen.get("channels_last", 0) < seen.get("convolutions", 0)
        and seen.get("dims", 4) == 4
        and (convolutions is None or convolutions > least)
    ):
        found.append("channels_last")
    if evidence.details.ops and bfloat16_by(evidence) and dtypes.get("float32", 0.0) >= 0.5:
        found.append("bfloat16")
    return found


def saving(evidence: Evidence, name: str) -> Saving | None:
    """What was measured; None: it was not tried. A share below 0: it would cost."""
    tried = evidence.trait(traits.ALTERNATIVES)
    one = tried.get(name) if isinstance(tried, Mapping) else None
    step_ms = evidence.whole.step_ns / 1e6
    if not isinstance(one, Mapping) or not step_ms or not one.get("now_ms"):
        return None
    now_ms, then_ms = float(one["now_ms"]), float(one["then_ms"])
    computed_ms = evidence.whole.share(*_COMPUTE) * step_ms
    # Alone and warm they are as fast as they get: no more is claimed than they took in the step.
    scale = min(1.0, computed_ms / now_ms)
    said = (
        f"{_count(one.get('ops'))} of a step, run again after training, took"
        f" {duration(now_ms * 1e6)} as they are and {duration(then_ms * 1e6)} so."
    )
    share = (now_ms - then_ms) * scale / step_ms
    return Saving(share, said, one.get("dearest") or None, then_ms / now_ms)


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
