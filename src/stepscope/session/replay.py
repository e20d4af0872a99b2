"""Runs operators of a program again, in a process of its own, when the program is over."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

__all__ = ["run_again"]

BUDGET_S = 2.0  # for all alternatives together
# Memory that is handed back and taken again costs page faults, as it happens: not what is compared.
_KEEP_MEMORY = dict.fromkeys(("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"), str(1 << 40))
TIMEOUT_S = 30.0  # loading torch from a cold disk included


def run_again(request: Mapping[str, Any]) -> dict[str, Any]:
    """{alternative: its figures}; {} where there is no torch, or it took too long."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "stepscope.collect.replay"],
            input=json.dumps({**request, "budget_s": BUDGET_S}),
            env=os.environ | _KEEP_MEMORY,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        found = json.loads(done.stdout) if done.returncode == 0 else {}
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return {}
    return found if isinstance(found, dict) else {}
