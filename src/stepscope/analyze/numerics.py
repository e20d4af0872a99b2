"""Findings about how numbers are stored: precision, denormals, memory layout."""

from __future__ import annotations

from collections.abc import Sequence

from stepscope.analyze.evidence import Evidence
from stepscope.analyze.phase_finding import phase_finding
from stepscope.analyze.words import percent
from stepscope.model import traits
from stepscope.model.details import LayerTime
from stepscope.model.finding import Finding, Location
from stepscope.model.kinds import Signal
from stepscope.model.phases import Phase

__all__ = ["denormals", "double_precision", "layout", "single_precision"]

_MODEL = (Phase.FORWARD, Phase.BACKWARD)
_COMPUTE = (*_MODEL, Phase.OPTIMIZER)
# Half the width: twice as many numbers in a register and half the bytes to move. A bound, not a
# measurement: every finding that uses it says so.
_HALF_WIDTH_SAVES = 0.5
_NOT_TRIED = "How fast it is at the lower precision was not measured: half the time is assumed."
# torch 2.13 on a CPU: a convolutional network took 18 % less in channels_last.
_CHANNELS_LAST_SAVES = 0.18
_PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "linear", "conv", "attention", "matmul", "lstm")
_COPIES = ("aten::copy_", "aten::clone", "aten::contiguous")
# What torch.sigmoid takes on subnormal values: 1.9 times as long on one x86 CPU, much more on
# others. The CPU's own figure is a trait.
_USUAL_SLOWDOWN = 1.9


def double_precision(evidence: Evidence) -> Finding | None:
    """float64 parameters: half the width would do for almost every model."""
    dtypes = evidence.trait(traits.DTYPES) or {}
    doubled = float(dtypes.get("float64", 0.0))
    if not doubled:
        return None
    share = evidence.whole.share(*_COMPUTE) * doubled * _HALF_WIDTH_SAVES
    said = [f"{percent(doubled)} of the parameters are float64."]
    return phase_finding(
        evidence,
        "precision",
        "compute-bound: double precision costs about",
        _COMPUTE,
        said,
        share=share,
        separated=doubled,
        missing=(_NOT_TRIED,),
        measures={"float64_share": doubled},
    )


def single_precision(evidence: Evidence) -> Finding | None:
    """float32 where most of the step is products and the hardware has bfloat16 for them."""
    dtypes = evidence.trait(traits.DTYPES) or {}
    if dtypes.get("float32", 0.0) < 0.5 or evidence.trait(traits.AUTOCAST):
        return None
    hardware = _bfloat16_by(evidence)
    products = _products_share(evidence)
    if hardware is None or products < Signal.MATMUL_SHARE:
        return None
    said = [
        (
            f"{percent(products)} of the step are matrix products and convolutions in float32;"
            f" this machine has bfloat16 ({hardware})."
        )
    ]
    return phase_finding(
        evidence,
        "precision",
        "compute-bound: single precision costs about",
        _MODEL,
        said,
        share=evidence.whole.share(*_MODEL) * min(1.0, products) * _HALF_WIDTH_SAVES,
        separated=(products - Signal.MATMUL_SHARE) / (1 - Signal.MATMUL_SHARE),
        missing=(_NOT_TRIED,),
        measures={"products_share": products, "bfloat16": 1.0},
        location=Location(op=_dearest_product(evidence)),
    )


def _bfloat16_by(evidence: Evidence) -> str | None:
    if evidence.whole.resources.gpus:
        return "its GPU"
    features = evidence.trait(traits.CPU_FEATURES) or ()
    return next((name for name in ("amx_bf16", "avx512_bf16") if name in features), None)


def _is_product(name: str) -> bool:
    return any(part in name.rpartition("::")[2] for part in _PRODUCTS)


def _products_share(evidence: Evidence) -> float:
    """Of the step; 0 where operators were not profiled."""
    return sum(op.share for op in evidence.details.ops if _is_product(op.name))


def _dearest_product(evidence: Evidence) -> str | None:
    products = [op for op in evidence.details.ops if _is_product(op.name)]
    return max(products, key=lambda op: op.self_ms).name if products else None


def denormals(evidence: Evidence) -> Finding | None:
    """Values too small for the fast path of the CPU. One of them slows a whole register down."""
    found = evidence.trait(traits.DENORMAL_SHARE)
    if not found or found < Signal.DENORMAL_SHARE or evidence.trait(traits.FLUSHES_DENORMALS):
        return None
    measured = evidence.trait(traits.DENORMAL_SLOWDOWN)
    slower = float(measured or _USUAL_SLOWDOWN) - 1.0
    lanes = 16 if "avx512f" in (evidence.trait(traits.CPU_FEATURES) or ()) else 8
    hit = 1.0 - (1.0 - float(found)) ** lanes  # registers with at least one of them
    share = evidence.whole.share(*_COMPUTE) * hit * slower / (1.0 + hit * slower)
    said = [
        (
            f"{percent(found)} of the values are denormal; {percent(hit)} of registers of {lanes}"
            f" hold at least one, which takes {slower + 1:.1f} times as long."
        )
    ]
    unknown = f"What a denormal costs on this CPU was not measured: {_USUAL_SLOWDOWN} is assumed."
    return phase_finding(
        evidence,
        "denormals",
        "compute-bound: denormal numbers cost up to",
        _MODEL,
        said,
        share=share,
        separated=0.0 if measured is None else 1.0,
        missing=() if measured is not None else (unknown,),
        measures={"denormal_share": float(found), "slowdown": slower + 1.0},
    )


def layout(evidence: Evidence) -> Finding | None:
    """Convolutions whose data lies channel by channel, where the kernels want it pixel by pixel."""
    seen = evidence.trait(traits.CONV_LAYOUT) or {}
    convolutions, right = seen.get("convolutions", 0), seen.get("channels_last", 0)
    if not convolutions or right >= convolutions or seen.get("dims", 4) != 4:
        return None
    wrong = 1.0 - right / convolutions
    of_step = _convolutions_share(evidence)
    if of_step is None:
        return None
    copies = _copies_share(evidence)
    said = [
        (
            f"{convolutions - right} of {convolutions} convolutions are not channels_last;"
            f" convolutions take {percent(of_step)} of the step."
        )
    ]
    said += [f"Copies between layouts take {percent(copies)} of the step."] if copies else []
    dearest = _dearest_convolution(evidence.details.layers)
    return phase_finding(
        evidence,
        "layout",
        "compute-bound: the memory layout of convolutions costs about",
        _MODEL,
        said,
        share=min(1.0, of_step) * wrong * _CHANNELS_LAST_SAVES + copies,
        separated=0.0,
        missing=(
            (
                "What channels_last saves here was not measured:"
                f" {percent(_CHANNELS_LAST_SAVES)} of the time of convolutions is assumed."
            ),
        ),
        measures={"convolutions_share": of_step, "copies_share": copies},
        location=None if dearest is None else Location(layer=dearest),
    )


def _convolutions_share(evidence: Evidence) -> float | None:
    """Of the loop, by layers or by operators; None: neither was timed."""
    layers = [layer for layer in evidence.details.layers if "Conv" in layer.kind]
    step_ms = evidence.whole.step_ns / 1e6
    if layers and step_ms:
        return sum(x.self_forward_ms + (x.self_backward_ms or 0.0) for x in layers) / step_ms
    ops = [op for op in evidence.details.ops if "conv" in op.name]
    return sum(op.self_ms for op in ops) / step_ms if ops and step_ms else None


def _copies_share(evidence: Evidence) -> float:
    """Of the loop, in copies of tensors as they are; with autocast they may convert numbers."""
    step_ms = evidence.whole.step_ns / 1e6
    if evidence.trait(traits.AUTOCAST) or not step_ms:
        return 0.0
    copied = [op.self_ms for op in evidence.details.ops if op.name in _COPIES]
    return sum(copied) / step_ms


def _dearest_convolution(layers: Sequence[LayerTime]) -> str | None:
    convolutions = [layer for layer in layers if "Conv" in layer.kind]
    if not convolutions:
        return None
    return max(convolutions, key=lambda x: x.self_forward_ms + (x.self_backward_ms or 0.0)).path
