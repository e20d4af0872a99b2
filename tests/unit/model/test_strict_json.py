from __future__ import annotations

import json
import math
from typing import NamedTuple

from stepscope.model.strict_json import strict_json


class Point(NamedTuple):
    x: float
    y: float


def test_numbers_that_json_does_not_have_are_null_at_any_depth() -> None:
    made = strict_json({"a": [1.5, math.nan, {"b": (math.inf, -math.inf)}], 3: "c", "d": None})
    assert made == {"a": [1.5, None, {"b": [None, None]}], "3": "c", "d": None}
    json.dumps(made, allow_nan=False)


def test_named_tuples_keep_their_names() -> None:
    assert strict_json([Point(1.0, math.nan)]) == [{"x": 1.0, "y": None}]
