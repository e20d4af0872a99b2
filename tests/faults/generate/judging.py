"""What stepscope said about a generated program against what ablation says is true."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from stepscope.model.kinds import KINDS

__all__ = ["clear_share", "figures", "judge", "result"]

Row = dict[str, Any]

REAL_SHARE = 0.03  # below, a planted fault costs nothing and the program counts as healthy
CLEAR_SHARE = 0.08  # up to here, naming the fault and naming none are both right
CLOSE_SHARES = 0.05  # two faults this near to each other: either may come first
# Programs with steps shorter than this are mostly the dispatch of their operators.
SHORT_STEP_MS = 2.0
BOUND_SLACK = 1.1
RANGE_SLACK = 1.03  # by how much two ablations of one program differ on a quiet machine


def clear_share(kind: str) -> float:
    """From this true share on, the fault has to be named."""
    return max(CLEAR_SHARE, KINDS[kind].moderate_share + 0.05)


def judge(record: Mapping[str, Any]) -> Row:
    """A row of results: expected and got, right or wrong and why."""
    plan, summary = record["plan"], record["summary"]
    truths = sorted(record["truths"], key=lambda truth: -truth["share"])
    real = [truth for truth in truths if truth["share"] >= REAL_SHARE]
    head = _head(summary["findings"])
    row: Row = {
        "suite": record["suite"],
        "program": record["program"],
        "expected": " + ".join(f"{t['kind']} {t['share']:.0%}" for t in real) or "healthy",
        "got": f"{head['kind']} {head['share']:.0%}" if head else "nothing",
        "shape": plan["shape"],
        "steps_right": summary["steps"]["count"] == record["steps"],
        "reliable": all(truth["spread"] <= 1.15 for truth in truths),
    }
    accepted = _accepted(real, plan, head)
    right = (head["kind"] if head else "compute") in accepted
    row |= {"right": right, "case": _case(real), "why": "" if right else _why(real, head)}
    if row["case"] == "clear":
        named = head if right and head else None
        truth = next((t for t in real if named and t["kind"] == named["kind"]), real[0])
        finding = next((f for f in summary["findings"] if f["kind"] == truth["kind"]), None)
        row |= _compared(truth, finding, record)
    return row


def _head(findings: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The first finding about time that is worth attention."""
    for finding in findings:
        kind = KINDS[finding["kind"]]
        if kind.group != "memory" and finding["share"] >= kind.moderate_share:
            return finding
    return None


def _case(real: Sequence[Mapping[str, Any]]) -> str:
    if not real:
        return "healthy"
    return "clear" if real[0]["share"] >= clear_share(real[0]["kind"]) else "borderline"


def _accepted(
    real: Sequence[Mapping[str, Any]], plan: Mapping[str, Any], head: Mapping[str, Any] | None
) -> set[str]:
    """Every right answer to what the largest avoidable cost is."""
    case = _case(real)
    if case == "clear":
        kinds = {t["kind"] for t in real if real[0]["share"] - t["share"] <= CLOSE_SHARES}
    else:
        kinds = {"compute", *(t["kind"] for t in real)}
    if plan["step_ms"] < SHORT_STEP_MS and head and head["kind"] == "host-overhead":
        largest = real[0]["share"] if real else 0.0
        kinds |= {"host-overhead"} if head["share"] > largest else set()
    return kinds


def _why(real: Sequence[Mapping[str, Any]], head: Mapping[str, Any] | None) -> str:
    said = head["kind"] if head else "nothing"
    return f"false alarm: {said}" if not real else f"{real[0]['kind']} taken for {said}"


def _compared(
    truth: Mapping[str, Any], finding: Mapping[str, Any] | None, record: Mapping[str, Any]
) -> Row:
    """Place, share and promises of the finding that has the right kind."""
    share = finding["share"] if finding else 0.0
    row: Row = {
        "place_right": finding is not None and _is_at(finding["location"], truth),
        "share_error_points": round(100 * abs(share - truth["share"]), 2),
        "real_gain": truth["gain"],
    }
    if finding is None:
        return row
    row["where"] = _where(finding["location"])
    if finding.get("max_speedup"):
        row["at_most"] = round(finding["max_speedup"], 3)
        row["bound_holds"] = truth["gain"] <= BOUND_SLACK * finding["max_speedup"]
    expected = (finding.get("recommendation") or {}).get("expected_speedup")
    if expected:
        low, high = expected
        row["range"] = [round(low, 3), round(high, 3)]
        row["range_contains"] = low / RANGE_SLACK <= truth["gain"] <= high * RANGE_SLACK
        row["range_ratio"] = round(high / low, 3)
    return row


def _is_at(location: Mapping[str, Any], truth: Mapping[str, Any]) -> bool:
    if not location["file"] or PurePath(location["file"]).name != "train.py":
        return False
    if truth["anywhere"] or location["line"] in truth["lines"]:
        return True
    given = str(location["function"])
    return any(
        given == function or function.endswith(f".{given}") for function in truth["functions"]
    )


def _where(location: Mapping[str, Any]) -> str:
    file = PurePath(location["file"]).name if location["file"] else "–"
    return f"{file}:{location['line']} {location['function']}"


def figures(rows: Sequence[Row]) -> dict[str, float | int | None]:
    """The scores of the issue. None: no program had it."""
    clear = [row for row in rows if row["case"] == "clear"]
    named = [row for row in clear if row["right"]]
    errors = [row["share_error_points"] for row in named]
    bounds = [row["bound_holds"] for row in named if "bound_holds" in row]
    ranges = [row for row in named if "range_contains" in row]
    return {
        "programs": len(rows),
        "clear": len(clear),
        "healthy": sum(row["case"] == "healthy" for row in rows),
        "kind": _mean([row["right"] for row in clear]),
        "place": _mean([row["place_right"] for row in clear]),
        "false_alarms": sum(not row["right"] for row in rows if row["case"] == "healthy"),
        "borderline_wrong": sum(not row["right"] for row in rows if row["case"] == "borderline"),
        "share_error_median": _of(statistics.median, errors),
        "share_error_p95": _of(_percentile_95, errors),
        "bound": _mean(bounds),
        "range": _mean([row["range_contains"] for row in ranges]),
        "range_ratio_median": _of(statistics.median, [row["range_ratio"] for row in ranges]),
        "with_range": len(ranges),
        "steps": _mean([row["steps_right"] for row in rows]),
    }


def result(rows: Sequence[Row], failed: int) -> dict[str, Any]:
    """The last line of output, in the form of a benchmark's."""
    found = figures(rows)
    limits = (
        ("right kind", found["kind"], 0.95, True),
        ("right place", found["place"], 0.90, True),
        ("false alarms", found["false_alarms"], 0, False),
        ("median share error, points", found["share_error_median"], 5.0, False),
        ("share error of 95 %, points", found["share_error_p95"], 15.0, False),
        ("bound holds", found["bound"], 0.98, True),
        ("range contains the gain", found["range"], 0.85, True),
        ("median ratio of a range's ends", found["range_ratio_median"], 1.5, False),
        ("steps exact", found["steps"], 1.0, True),
        ("programs that failed", failed, 0, False),
    )
    targets = [
        {"name": name, "value": value, "limit": limit,
         "ok": value is None or (value >= limit if least else value <= limit)}
        for name, value, limit, least in limits
    ]  # fmt: skip
    return {
        "name": "generated",
        "figures": {**found, "wrong": [row for row in rows if not row["right"]]},
        "targets": targets,
        "ok": all(target["ok"] for target in targets),
    }


def _mean(values: Sequence[bool]) -> float | None:
    return round(sum(values) / len(values), 4) if values else None


def _of(statistic: Callable[[Sequence[float]], float], values: Sequence[float]) -> float | None:
    return round(statistic(values), 2) if values else None


def _percentile_95(values: Sequence[float]) -> float:
    return sorted(values)[min(len(values) - 1, round(0.95 * (len(values) - 1)))]
