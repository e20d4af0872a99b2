"""Findings about how numbers are stored: precision, denormals, memory layout.

What a change would save is measured where the operators of a step could be run again; else it is
not known, and there is no finding of a size.
"""

from __future__ import annotations

from stepscope.analyze.alternatives import (
    NOT_TRIED,
    bfloat16_by,
    convolutions_of,
    convolutions_share,
    saving,
    tried,
)
from stepscope.analyze.evidence import Evidence
from stepscope.analyze.phase_finding import phase_finding, place
from stepscope.analyze.words import percent
from stepscope.model import traits
from stepscope.model.details import LayerTime
from stepscope.model.finding import Finding, Location
from stepscope.model.kinds import Signal
from stepscope.model.phases import Phase

__all__ = ["denormals", "double_precision", "layout", "single_precision"]

_MODEL = (Phase.FORWARD, Phase.BACKWARD)
_COMPUTE = (*_MODEL, Phase.OPTIMIZER)
_PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "linear", "conv", "attention", "matmul", "lstm")


def double_precision(evidence: Evidence) -> Finding | None:
    """float64 parameters: half the width would do for almost every model."""
    dtypes = evidence.trait(traits.DTYPES) or {}
    doubled = float(dtypes.get("float64", 0.0))
    if not doubled:
        return None
    found = saving(evidence, "float32")
    said = [f"{percent(doubled)} of the parameters are float64."]
    if found is not None and found.share <= 0:
        return None
    return phase_finding(
        evidence,
        "precision",
        _COMPUTE,
        [*said, *((f"In float32: {found.said}",) if found else ())],
        # Half the width halves memory traffic and doubles the numbers in a vector: without a
        # measurement, half of the computation is the most that can be expected.
        share=found.share if found else evidence.whole.share(*_COMPUTE) * doubled / 2,
        separated=doubled if found else 0.0,
        missing=() if found else (NOT_TRIED, "The share is half of the computation in float64."),
        measures={"float64_share": doubled, **({"ratio": found.ratio} if found else {})},
    )


def single_precision(evidence: Evidence) -> Finding | None:
    """float32 where most of the step is products and the hardware has bfloat16 for them."""
    dtypes = evidence.trait(traits.DTYPES) or {}
    if dtypes.get("float32", 0.0) < 0.5 or evidence.trait(traits.AUTOCAST):
        return None
    hardware = bfloat16_by(evidence)
    products = max(_products_share(evidence), _products_run_again(evidence))
    found = saving(evidence, "bfloat16")
    if hardware is None or products < Signal.MATMUL_SHARE or found is None or found.share <= 0:
        return None
    said = [
        (
            f"{percent(products)} of the step are matrix products and convolutions in float32;"
            f" this machine has bfloat16 ({hardware})."
        ),
        f"In bfloat16: {found.said}",
    ]
    at = place(evidence, Phase.FORWARD)
    return phase_finding(
        evidence,
        "precision",
        _MODEL,
        said,
        share=found.share,
        separated=(products - Signal.MATMUL_SHARE) / (1 - Signal.MATMUL_SHARE),
        measures={"products_share": products, "bfloat16": 1.0, "ratio": found.ratio},
        location=Location(at.file, at.line, at.function, op=found.op or _dearest_product(evidence)),
    )


def _is_product(name: str) -> bool:
    return any(part in name.rpartition("::")[2] for part in _PRODUCTS)


def _products_share(evidence: Evidence) -> float:
    """Of the step; 0 where operators were not profiled."""
    return sum(op.share for op in evidence.details.ops if _is_product(op.name))


def _products_run_again(evidence: Evidence) -> float:
    one, step_ms = tried(evidence, "bfloat16"), evidence.whole.step_ns / 1e6
    return min(1.0, float(one["now_ms"]) / step_ms) if one is not None and step_ms else 0.0


def _dearest_product(evidence: Evidence) -> str | None:
    products = [op for op in evidence.details.ops if _is_product(op.name)]
    return max(products, key=lambda op: op.self_ms).name if products else None


def denormals(evidence: Evidence) -> Finding | None:
    """Values too small for the fast path of the CPU."""
    found, flushed = saving(evidence, "no_subnormals"), saving(evidence, "flush_denormals")
    if found is None or found.share <= 0:
        return None
    said = [f"With values of a usual size in the place of denormal ones: {found.said}"]
    if flushed is not None:
        helps = f"saves {percent(max(0.0, 1 - flushed.ratio))} of the time of these operators"
        said.append(f"torch.set_flush_denormal(True) {helps}.")
    return phase_finding(
        evidence,
        "denormals",
        _MODEL,
        said,
        share=found.share,
        separated=1.0 - found.ratio,
        measures={
            "ratio": found.ratio,
            **({"flush_ratio": flushed.ratio} if flushed is not None else {}),
        },
    )


def layout(evidence: Evidence) -> Finding | None:
    """Convolutions whose data lies channel by channel, where the kernels want it pixel by pixel."""
    seen = evidence.trait(traits.CONV_LAYOUT) or {}
    convolutions, right = seen.get("convolutions", 0), seen.get("channels_last", 0)
    found = saving(evidence, "channels_last")
    if not convolutions or right >= convolutions or found is None:
        return None
    said = [f"{convolutions - right} of {convolutions} convolutions are not channels_last."]
    of_step = convolutions_share(evidence)
    if of_step is not None:
        said.append(f"Convolutions take {percent(of_step)} of the step.")
    at, dearest = place(evidence, *_MODEL), _dearest_convolution(evidence)
    return phase_finding(
        evidence,
        "layout",
        _MODEL,
        [*said, f"In channels_last: {found.said}"],
        share=found.share,
        separated=min(1.0, max(0.0, 1.0 - found.ratio)),
        measures={"ratio": found.ratio},
        location=Location(at.file, at.line, at.function, layer=dearest, op=found.op),
    )


def _dearest_convolution(evidence: Evidence) -> str | None:
    def own_ms(layer: LayerTime) -> float:
        return layer.self_forward_ms + (layer.self_backward_ms or 0.0)

    return max(
        ((own_ms(one), one.path) for one in convolutions_of(evidence.details.layers)),
        default=(0.0, None),
    )[1]
