"""The records of the benchmark of gains as a table and as its result."""

from __future__ import annotations

import statistics

from gains_cases import Kind
from gains_counts import TUNED, TWIN, Gain, Saving, targets_of
from gains_records import Records
from harness import Result, at_most, table

__all__ = ["result_of", "table_of"]


def table_of(records: Records) -> str:
    """All scripts that were measured, then what could not be."""
    parts = [_gains_table(records), _savings_table(records), _twins_table(records)]
    healthy, claims = _healthy_kept(records), _claims(records)
    if healthy:
        clean = sum(not kept for kept in healthy.values())
        parts.append(f"healthy scripts: nothing kept on {clean} of {len(healthy)}")
    if claims:
        parts.append(f"nothing changed: a gain claimed in {sum(claims)} of {len(claims)}")
    parts += [f"{name}: could not be measured: {why}" for name, why in records.problems().items()]
    return "\n\n".join(part for part in parts if part)


def result_of(records: Records) -> Result:
    gains, savings = _gains(records), _savings(records)
    healthy, claims = _healthy_kept(records), _claims(records)
    figures = {
        "scripts": {
            gain.name: {
                "kind": gain.kind,
                "twin": gain.speedup(TWIN),
                "tuned": gain.speedup(TUNED),
                "share": gain.share,
                "kept": list(gain.kept),
                "predictions": list(gain.predictions),
            }
            for gain in gains
        },
        "memory": {
            one.name: {
                "twin": one.saved(TWIN),
                "tuned": one.saved(TUNED),
                "slowdown": one.slowdown(TUNED),
            }
            for one in savings
        },
        "healthy": healthy,
        "null": {"comparisons": len(claims), "claimed": sum(claims)},
        "problems": records.problems(),
    }
    failed = at_most("could not be measured", len(records.problems()), 0)
    return Result("gains", figures, [*targets_of(gains, savings, healthy, claims), failed])


def _gains(records: Records) -> list[Gain]:
    return [
        Gain(one["name"], Kind(one["kind"]), one["walls_s"], one["kept"], one["predictions"])
        for one in records.of("script")
    ]


def _savings(records: Records) -> list[Saving]:
    return [
        Saving(one["name"], one["peak_bytes"], one["walls_s"], one["kept"])
        for one in records.of("memory")
    ]


def _healthy_kept(records: Records) -> dict[str, list[str]]:
    return {one["name"]: one["kept"] for one in records.of("healthy")}


def _claims(records: Records) -> list[bool]:
    return [claim for one in records.of("null") for claim in one["claims"]]


def _gains_table(records: Records) -> str:
    rows = [
        (
            gain.name,
            gain.kind,
            f"{gain.speedup(TWIN):.2f}",
            f"{gain.speedup(TUNED):.2f}",
            "-" if gain.share is None else f"{gain.share:.0%}",
            _percent(gain.prediction_errors),
            ", ".join(gain.kept) or "nothing",
        )
        for gain in _gains(records)
    ]
    header = ("script", "kind", "twin ×", "tuned ×", "of the saving", "prediction off", "kept")
    return table(header, rows) if rows else ""


def _savings_table(records: Records) -> str:
    rows = [
        (
            one.name,
            f"{one.saved(TWIN):.0%}",
            f"{one.saved(TUNED):.0%}",
            f"{one.slowdown(TWIN):.2f}",
            f"{one.slowdown(TUNED):.2f}",
            ", ".join(one.kept) or "nothing",
        )
        for one in _savings(records)
    ]
    header = ("memory", "twin saves", "tuned saves", "twin takes ×", "tuned takes ×", "kept")
    return table(header, rows) if rows else ""


def _twins_table(records: Records) -> str:
    rows = []
    for one in records.of("twin"):
        gain = Gain(one["name"], Kind(one["kind"]), one["walls_s"])
        original_s = statistics.median(one["walls_s"]["original"])
        error = f"{one['loss_error']:.1g}"
        rows.append((gain.name, gain.kind, f"{original_s:.1f}", f"{gain.speedup(TWIN):.2f}", error))
    header = ("twin", "kind", "original s", "twin ×", "losses differ by")
    return table(header, rows) if rows else ""


def _percent(errors: list[float]) -> str:
    return ", ".join(f"{error:.0%}" for error in errors) or "-"
