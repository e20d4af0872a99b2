"""A fact about the program → its `trait` mark."""

from __future__ import annotations

import json
from typing import Any

from stepscope.model import names
from stepscope.record.recorder import Recorder

__all__ = ["tell"]


def tell(recorder: Recorder, name: str, fact: Any) -> None:
    """Names are kept by the recorder for good, so tell few different ones."""
    recorder.mark(recorder.intern(names.TRAIT), 0, recorder.intern(f"{name}\t{json.dumps(fact)}"))
