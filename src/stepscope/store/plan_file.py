"""Checkpoint plans as files: what `stepscope plan` writes and `CheckpointManager` loads.

plan.json of a run holds what planning found out, the plan within it. A plan by itself is enough,
as JSON or as TOML, and can be written by hand:

    [[segments]]
    module = "blocks.0"
    recompute = "all"
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from stepscope.errors import FormatError, UsageError
from stepscope.model.checkpoint_plan import (
    PLAN_SCHEMA,
    CheckpointPlan,
    PlanReport,
    Segment,
)
from stepscope.model.plain import from_plain, to_plain
from stepscope.store.files import read_bytes, read_json, write_json

__all__ = ["PLAN_FILE", "read_plan", "read_plan_report", "write_plan", "write_plan_report"]

PLAN_FILE: Final = "plan.json"
_MAX_BYTES: Final = 8 << 20


def write_plan(path: Path, plan: CheckpointPlan) -> None:
    write_json(path, {"schema": PLAN_SCHEMA, **to_plain(plan)}, private=False)


def write_plan_report(run: Path, report: PlanReport) -> None:
    write_json(run / PLAN_FILE, {"schema": PLAN_SCHEMA, **to_plain(report)})


def read_plan(path: Path) -> CheckpointPlan:
    """UsageError: there is no such file. FormatError: it holds no plan."""
    plain = _read(path)
    inner = plain.get("plan", plain)
    plan: CheckpointPlan = _made(path, CheckpointPlan, inner, lambda plan: plan)
    return plan


def read_plan_report(run: Path) -> PlanReport | None:
    """None: nothing was planned in this run."""
    path = run / PLAN_FILE
    if not os.path.lexists(path):
        return None

    report: PlanReport = _made(path, PlanReport, _read(path), lambda report: report.plan)
    return report


def _read(path: Path) -> dict[str, Any]:
    try:
        if path.suffix == ".toml":
            plain = tomllib.loads(read_bytes(path, _MAX_BYTES).decode())
        else:
            plain = read_json(path, _MAX_BYTES)
    except FileNotFoundError:
        raise UsageError(f"There is no plan at {path}: make one with stepscope plan.") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise FormatError(f"{path} is no TOML ({error}).") from error
    schema = plain.get("schema", PLAN_SCHEMA)
    if not isinstance(schema, int) or schema > PLAN_SCHEMA:
        raise FormatError(
            f"{path} was written by a newer stepscope (plan schema {schema!r}, this one reads"
            f" {PLAN_SCHEMA}): upgrade with pip install -U stepscope."
        )
    return plain


def _made(path: Path, kind: Any, plain: Any, plan_of: Callable[[Any], CheckpointPlan]) -> Any:
    try:
        made = from_plain(kind, plain, "plan")
        _check_segments(plan_of(made).segments)
    except FormatError as error:
        raise FormatError(f"{path} cannot be used as a checkpoint plan: {error}") from error
    return made


def _check_segments(segments: tuple[Segment, ...]) -> None:
    runs: dict[str, list[tuple[int, int]]] = {}
    whole: set[str] = set()
    for one in segments:
        if (one.first is None) != (one.last is None):
            raise FormatError(f"segment {one.module!r} needs both first and last, or none of them.")
        if one.first is None or one.last is None:
            if one.module in whole:
                raise FormatError(f"{one.module!r} is in it twice.")
            whole.add(one.module)
        elif one.first > one.last:
            raise FormatError(f"segment {one.label} ends before it begins.")
        else:
            runs.setdefault(one.module, []).append((one.first, one.last))
    for module, ranges in runs.items():
        if any(a[1] >= b[0] for a, b in pairwise(sorted(ranges))):
            raise FormatError(f"runs of {module!r} overlap.")
