from __future__ import annotations

import math
from array import array
from typing import Any

import pytest

from stepscope.model import names
from stepscope.model.event import COLUMNS, Batch, EventType
from stepscope.store.sound import sound

GOOD = {"time_ns": 5, "duration_ns": 2, "cpu_start_ns": -1, "cpu_ns": -1, "value": 1.0}
GOOD |= {"name": 1, "type": int(EventType.SPAN), "track": 7}


def batch(*rows: dict[str, Any], texts: dict[int, str] | None = None) -> Batch:
    columns = {
        column.name: memoryview(
            array(column.code, [(GOOD | row).get(column.name, 0) for row in rows])
        )
        for column in COLUMNS
    }
    return Batch(len(rows), columns, {1: names.FORWARD} | (texts or {}))


def test_a_batch_in_which_everything_makes_sense_is_the_same_object() -> None:
    made = batch({}, {"time_ns": 6})
    assert sound(made) is made


@pytest.mark.parametrize(
    "wrong",
    [
        {"time_ns": -1},
        {"time_ns": 2**63 - 1},
        {"duration_ns": -1},
        {"duration_ns": 2**62},
        {"cpu_ns": 2**63 - 1},
        {"value": math.nan},
        {"value": math.inf},
        {"value": -1e300},
        {"name": 0},
        {"name": 99},
        {"text": 99},
        {"type": 0},
        {"type": 5},
    ],
)
def test_an_event_that_makes_no_sense_is_dropped_and_its_neighbours_stay(
    wrong: dict[str, Any],
) -> None:
    left = sound(batch({"time_ns": 1}, wrong, {"time_ns": 3}))
    assert [row.time_ns for row in left.rows()] == [1, 3]


@pytest.mark.parametrize(
    "right",
    [
        {"arg": 2**63 - 1},  # FLOPs of an operation, or an address of the program's own
        {"value": 256 * 60 * 86_400e9},  # busy time of 256 CPUs in 60 days, in ns
        {"value": -1e18},
    ],
)
def test_a_large_figure_of_a_large_machine_is_kept(right: dict[str, Any]) -> None:
    assert sound(batch(right)).count == 1


def test_a_loss_need_not_be_a_number() -> None:
    made = batch({"name": 2, "value": math.nan}, texts={2: names.LOSS})
    assert sound(made).count == 1


def test_a_machine_has_some_part_of_a_cpu() -> None:
    made = batch({"name": 2, "value": 0.0}, {"name": 2, "value": 0.5}, texts={2: "host.cpu_count"})
    assert [row.value for row in sound(made).rows()] == [0.5]


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        (names.STACK_FRAME, "0\t4\tf\t/a\tb.py", "0\t{}\tf\t/a.py"),
        (names.STACK_FRAME, "7\t-1\tf\t", "1\t2\tf"),
        (names.LAYER, "a.b\tLinear\t3", "a.b"),
        (names.OP, "aten::mm\t3\t2", "aten::mm\t3\tmany"),
        (names.PYTHON_LINE, "12\t/a.py", "/a.py"),
        (names.MEMORY_TOTAL, '{"live_bytes": 3}', '{"live_bytes": []}'),
        (names.MEMORY_TOTAL, "{}", '{"live_bytes": NaN}'),
        (names.LOADER, '{"workers": 2, "of the future": []}', '{"workers": 1e400}'),
        (names.LOADER, '{"prefetch_factor": null}', "[" * 100_000),
        (names.TRAIT, 'dtypes\t{"float32": 1.0}', 'dtypes\t["float32"]'),
        (names.TRAIT, "of the future\t[1]", "threads\tmany"),
        (names.OPERATION, "1/after", ""),
    ],
)
def test_a_text_must_have_the_form_of_its_event(name: str, good: str, bad: str) -> None:
    texts = {2: name, 3: good} | ({4: bad} if bad else {})
    rows = [{"name": 2, "text": 3}, {"name": 2, "text": 4 if bad else 0}]
    assert [row.text for row in sound(batch(*rows, texts=texts)).rows()] == [good]
