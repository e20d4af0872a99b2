"""What the corpus prints."""

from __future__ import annotations

from typing import Any

from tests.faults.scoring import Score, by_kind, by_share, by_strength, confusions
from tests.faults.verifying import Verified

__all__ = ["print_scores", "print_truth", "result", "row"]

Figures = dict[str, float | int | None]


def print_scores(scores: list[Score], failures: list[tuple[str, str]]) -> None:
    print(f"{'script':26}{'strength':>9}  {'true':30}{'said':30}where  share off by")
    for one in scores:
        print(_script_line(one))
        if one.seen.unlike:
            print(f"  ! {one.seen.unlike}")
    for title, groups in (
        ("by kind", by_kind(scores)),
        ("by strength", by_strength(scores)),
        ("by true share", by_share(scores)),
    ):
        print(f"\n{title:26}{'scripts':>9}{'top 1':>9}{'located':>9}{'off by':>9}")
        for name, group in groups.items():
            print(_group_line(name, group))
    wrong = confusions(scores).most_common()
    if wrong:
        print("\ntaken for something else")
        for (true, said), count in wrong:
            print(f"  {true} → {said}" + (f" ({count} times)" if count > 1 else ""))
    _print_failures(failures)
    print()


def print_truth(checked: list[Verified], failures: list[tuple[str, str]]) -> None:
    print(f"{'script':26}{'strength':>9}{'stated':>9}{'wall':>9}{'CPU':>9}{'loop':>9}")
    for one in checked:
        stated = "–" if one.stated is None else f"{one.stated:.0%}"
        print(
            f"{one.case.script:26}{one.strength:>9g}{stated:>9}{one.wall_share:>9.0%}"
            f"{one.cpu_share:>9.0%}{one.wall_s:>7.1f} s{'' if one.agrees else '  disagrees'}"
        )
    _print_failures(failures)


def result(figures: Figures, failures: list[tuple[str, str]]) -> dict[str, Any]:
    limits = (
        ("top-1 kind", figures["top1"], 0.95, True),
        ("location", figures["location"], 0.90, True),
        ("false alarms", figures["false_alarms"], 0, False),
        ("median share error, points", figures["share_error_points"], 5.0, False),
        ("scripts that failed", len(failures), 0, False),
    )
    targets = [
        {"name": name, "value": value, "limit": limit, "ok": _holds(value, limit, least=least)}
        for name, value, limit, least in limits
    ]
    failed = [{"script": script, "error": error} for script, error in failures]
    return {
        "name": "faults",
        "figures": {**figures, "failed": failed},
        "targets": targets,
        "ok": all(target["ok"] for target in targets),
    }


def row(one: Score) -> dict[str, Any]:
    seen = one.seen
    return {
        "script": seen.case.script,
        "strength": seen.strength,
        "kinds": list(seen.case.kinds),
        "shares": {kind: round(share, 4) for kind, share in seen.shares.items()},
        "said": [
            {"kind": f["kind"], "share": f["share"], "location": f["location"]}
            for f in seen.findings
        ],
        "right": one.right,
        "located": list(one.located),
        "share_error_points": [round(points, 2) for points in one.error_points],
    }


def _holds(value: float | int | None, limit: float, *, least: bool) -> bool:
    """A figure that was not measured (no healthy script chosen, say) breaks no promise."""
    return value is None or (value >= limit if least else value <= limit)


def _script_line(one: Score) -> str:
    seen = one.seen
    true = ", ".join(f"{kind} {share:.0%}" for kind, share in seen.shares.items()) or "healthy"
    count = max(1, len(seen.case.faults))
    said = ", ".join(f"{f['kind']} {f['share']:.0%}" for f in seen.findings[:count]) or "nothing"
    where = "".join("✓" if located else "✗" for located in one.located) or "–"
    off = ", ".join(f"{points:.0f}" for points in one.error_points)
    mark = "✓" if one.right else "✗"
    return (
        f"{seen.case.script:26}{seen.strength:>9g}  {true:30}{mark} {said:28}{where:>5}  {off:>12}"
    )


def _group_line(name: str, group: Figures) -> str:
    def cell(value: float | int | None, form: str) -> str:
        return f"{'–' if value is None else format(value, form):>9}"

    return (
        f"  {name:24}{group['faulty']:>9}{cell(group['top1'], '.0%')}"
        f"{cell(group['location'], '.0%')}{cell(group['share_error_points'], '.1f')}"
    )


def _print_failures(failures: list[tuple[str, str]]) -> None:
    for script, error in failures:
        print(f"FAILED {script}: {error}")
