"""The environment of the child: how it finds the bootstrap, and what it is told."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from stepscope.config import (
    DEFAULTS,
    ENV_APPLY,
    ENV_LEVEL,
    ENV_MEMORY,
    ENV_PACKAGE,
    ENV_PLAN,
    ENV_REPLAY,
    ENV_RUN,
    ENV_STATUS,
    ENV_TRIAL,
    ENV_WATCH,
    PlanWish,
    Settings,
    TrialWish,
)

__all__ = ["child_environment"]

_PACKAGE = Path(__file__).resolve().parent.parent


def child_environment(
    environment: Mapping[str, str], run: Path, status: Path, settings: Settings = DEFAULTS
) -> dict[str, str]:
    """The user's own environment, and on it what makes every Python below join the run."""
    bootstrap = str(_PACKAGE / "bootstrap")
    path = environment.get("PYTHONPATH")
    # An empty PYTHONPATH means nothing, but a trailing separator would mean the current folder.
    others = [part for part in path.split(os.pathsep) if part != bootstrap] if path else []
    return {
        **environment,
        "PYTHONPATH": os.pathsep.join([bootstrap, *others]),
        ENV_RUN: str(run),
        ENV_STATUS: str(status),
        ENV_PACKAGE: str(_PACKAGE.parent),
        ENV_LEVEL: settings.level.value,
        ENV_MEMORY: ",".join(settings.memory),
        ENV_PLAN: _as_json(settings.plan),
        ENV_TRIAL: _as_json(settings.trial),
        ENV_APPLY: settings.changes,
        ENV_REPLAY: settings.replay.value,
        ENV_WATCH: "1" if settings.watch else "",
    }


def _as_json(wish: PlanWish | TrialWish | None) -> str:
    return json.dumps(wish._asdict()) if wish is not None else ""
