"""The finding about activations that are computed again, and whether memory asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from stepscope.analyze.evidence import Evidence
from stepscope.analyze.phase_finding import phase_finding
from stepscope.analyze.words import bytes_text, duration, percent, plural
from stepscope.model.checkpoint_details import CheckpointedLayer, Checkpointing
from stepscope.model.finding import Finding, Location
from stepscope.model.kinds import Signal
from stepscope.model.phases import Phase

__all__ = ["recompute"]


class _Memory(NamedTuple):
    """Where activations lie. None: not measured."""

    free_bytes: float | None
    of: str  # "of the GPU" or the like, for a sentence


def recompute(evidence: Evidence) -> Finding | None:
    """Forward passes that are done again in backward, to save memory: which layers, how long, how
    much it saves, and whether that would have fitted."""
    found = evidence.details.checkpointing
    if found is None or found.recompute_ms <= 0:
        return None
    memory = _free(evidence, found)
    removable, judged = _judged(found, memory)
    dearest = max(found.layers, key=lambda layer: layer.recompute_ms)
    return phase_finding(
        evidence,
        "recompute",
        [Phase.BACKWARD],
        [_told(found), judged],
        share=min(found.share, evidence.whole.share(Phase.BACKWARD)),
        missing=_missing(evidence, found, memory),
        measures=_measures(found, memory, removable),
        location=replace(_line(found, dearest.location), layer=dearest.layer),
    )


def _line(found: Checkpointing, at: Location) -> Location:
    """Of the dearest layer; where its line is not known, of any."""
    known = (layer.location for layer in found.layers if layer.location.file is not None)
    return at if at.file is not None else next(known, at)


def _told(found: Checkpointing) -> str:
    in_all_ns = found.recompute_ms * 1e6 * found.steps
    saved = found.saved_bytes
    return (
        f"Checkpointing recomputes {plural(len(found.layers), 'layer')}"
        f" ({_named(found.layers)}): {duration(found.recompute_ms * 1e6)} of every step"
        f" ({percent(found.share)}), {duration(in_all_ns)} of the run, to save"
        f" {bytes_text(saved) if saved is not None else 'an amount that was not measured'}."
    )


def _judged(
    found: Checkpointing, memory: _Memory
) -> tuple[Sequence[CheckpointedLayer] | None, str]:
    """The layers that need not be recomputed (None: not known), and that in words."""
    saved, free = found.saved_bytes, memory.free_bytes
    if free is None:
        return None, "Whether memory asks for it is not known."
    if saved is None:
        return None, f"{bytes_text(free)} {memory.of} were free."
    if saved <= Signal.AMPLE_SHARE * free:
        return found.layers, f"{bytes_text(free)} {memory.of} were free: all of it would have fit."
    poor = _poor(found)
    needed = f"It is needed: only {bytes_text(free)} {memory.of} were free."
    if poor:
        needed += (
            f" But {_named(poor)} {'saves' if len(poor) == 1 else 'save'} far less than the others"
            " for the same time."
        )
    return poor, needed


def _poor(found: Checkpointing) -> list[CheckpointedLayer]:
    """Those that save far fewer bytes in a millisecond than all of them together do."""
    usual = (found.saved_bytes or 0.0) / found.recompute_ms
    layers = ((layer, layer.bytes_per_ms) for layer in found.layers)
    return [
        layer for layer, worth in layers if worth is not None and worth < usual * Signal.POOR_SHARE
    ]


def _named(layers: Sequence[CheckpointedLayer]) -> str:
    """In the order of their names, which for blocks is that of the model."""
    names = sorted((layer.layer for layer in layers), key=_in_order)
    return ", ".join(names) if len(names) <= 3 else f"{names[0]} … {names[-1]}"


def _in_order(name: str) -> list[tuple[int, int, str]]:
    """
    >>> sorted(["blocks.10", "blocks.9"], key=_in_order)
    ['blocks.9', 'blocks.10']
    """
    parts = name.split(".")
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]


def _free(evidence: Evidence, found: Checkpointing) -> _Memory:
    """The least that was free of the memory that activations lie in."""
    resources = evidence.whole.resources
    gpus = [g for g in resources.gpus if g.memory_total_bytes and g.memory_used_bytes is not None]
    if gpus:
        left = min((g.memory_total_bytes or 0.0) - (g.memory_used_bytes or 0.0) for g in gpus)
        return _Memory(max(0.0, left), "of the GPU's memory")
    known = [resources.memory_available_bytes, found.left_bytes]
    least = min((left for left in known if left is not None), default=None)
    return _Memory(None if least is None else max(0.0, least), "of memory")


def _missing(evidence: Evidence, found: Checkpointing, memory: _Memory) -> tuple[str, ...]:
    missing = []
    if memory.free_bytes is None:
        missing.append("How much memory was free was not measured.")
    if found.saved_bytes is None:
        missing.append("What recomputing saves was not measured: no step was looked at closer.")
    if evidence.whole.resources.gpus:
        missing.append("Recomputation was timed where it was launched, not on the GPU.")
    return tuple(missing)


def _measures(
    found: Checkpointing, memory: _Memory, removable: Sequence[CheckpointedLayer] | None
) -> dict[str, float]:
    measures = {"recompute_ms": found.recompute_ms, "layers": float(len(found.layers))}
    if found.saved_bytes is not None:
        measures["saved_bytes"] = found.saved_bytes
    if memory.free_bytes is not None:
        measures["free_bytes"] = memory.free_bytes
    if removable is not None:
        measures["removable_layers"] = float(len(removable))
        measures["removable_ms"] = sum(layer.recompute_ms for layer in removable)
    return measures
