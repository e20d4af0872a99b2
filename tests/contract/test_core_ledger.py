"""What both cores promise about allocations and stacks."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepscope.record.twin import TwinCore
from tests.contract.conftest import native_core


def test_totals_and_peak_follow_allocations_and_frees(core: Any) -> None:
    ledger = core.Ledger()
    assert ledger.alloc(0x1000, 100, 1)
    assert ledger.alloc(0x2000, 50, 2)
    assert ledger.free(0x1000) == 100
    assert ledger.alloc(0x3000, 20, 1)
    assert ledger.totals() == {
        "live_bytes": 70,
        "peak_bytes": 150,
        "live": 2,
        "allocated": 3,
        "freed": 1,
        "allocated_bytes": 170,
        "freed_bytes": 100,
    }
    assert ledger.totals(1)["live_bytes"] == 20
    assert ledger.totals(1)["peak_bytes"] == 100
    assert ledger.totals(2)["live"] == 1


def test_an_entry_remembers_kind_stack_time_and_step(core: Any) -> None:
    core.set_step(5)
    ledger = core.Ledger()
    before = core.now_ns()
    ledger.alloc(0x7F00_1234_5670, 4096, 9, 77)
    address, size, kind, time_ns, stack, step = ledger.get(0x7F00_1234_5670)
    assert (address, size, kind, stack, step) == (0x7F00_1234_5670, 4096, 9, 77, 5)
    assert abs(time_ns - before) < 100_000_000
    assert ledger.get(0x10) is None
    assert ledger.live() == [ledger.get(0x7F00_1234_5670)]


def test_wrong_bookings_are_counted_and_leave_the_totals_right(core: Any) -> None:
    ledger = core.Ledger()
    ledger.alloc(0x1000, 100)
    assert ledger.free(0x9990) == -1
    assert not ledger.alloc(0x2000, -5)
    assert not ledger.alloc(0x2000, 1 << 60)
    assert not ledger.alloc(0x2000, 1 << 200)
    assert not ledger.alloc(0, 10)
    assert not ledger.alloc(-5, 10)
    assert not ledger.alloc(1 << 64, 10)
    assert ledger.alloc(0x1000, 30)
    assert ledger.errors() == {"unknown_frees": 1, "double_allocations": 1, "bad_sizes": 6}
    assert ledger.totals()["live_bytes"] == 30
    with pytest.raises(ValueError, match="0 to 255"):
        ledger.alloc(0x3000, 1, 256)
    with pytest.raises(ValueError, match="capture"):
        ledger.alloc(0x3000, 1, 0, -1)


def test_many_allocations_grow_and_shrink_without_losing_one(core: Any) -> None:
    ledger = core.Ledger()
    addresses = [0x7F00_0000_0000 + i * 4096 for i in range(20_000)]
    for address in addresses:
        ledger.alloc(address, 16)
    random.Random(1).shuffle(addresses)
    for address in addresses[:15_000]:
        assert ledger.free(address) == 16
    assert {entry[0] for entry in ledger.live()} == set(addresses[15_000:])


@pytest.mark.parametrize("gap_bytes", [64, 1 << 20])
def test_blocks_come_and_go_while_the_index_is_moved_to_a_larger_one(
    core: Any, gap_bytes: int
) -> None:
    """GIVEN an index that grew a moment ago WHEN blocks that are still in the old one are freed,
    booked again and booked twice THEN each address is known once, with its latest size."""
    ledger, chance = core.Ledger(), random.Random(17)
    expected: dict[int, int] = {}
    doubled = 0
    for number in range(1, 40_000):
        address = 0x7F00_0000_0000 + number * gap_bytes
        ledger.alloc(address, number)
        expected[address] = number
        again = 0x7F00_0000_0000 + chance.randint(1, number) * gap_bytes
        what = chance.random()
        if what < 0.3:
            assert ledger.free(again) == expected.pop(again, -1)
        elif what < 0.5:
            doubled += again in expected
            ledger.alloc(again, number)
            expected[again] = number
        else:
            found = ledger.get(again)
            assert (found[1] if found else None) == expected.get(again)
    assert {entry[0]: entry[1] for entry in ledger.live()} == expected
    assert len(ledger.live()) == ledger.totals()["live"] == len(expected)
    assert ledger.totals()["live_bytes"] == sum(expected.values())
    assert ledger.errors()["double_allocations"] == doubled


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(1, 40), st.integers(0, 1000), st.integers(0, 3)),
        max_size=300,
    )
)
def test_both_ledgers_agree_on_any_sequence(operations: list[tuple[bool, int, int, int]]) -> None:
    native, twin = native_core().Ledger(), TwinCore().Ledger()
    for is_alloc, slot, size, kind in operations:
        address = slot << 24  # far apart, so that they share slots of the table
        if is_alloc:
            assert native.alloc(address, size, kind) == twin.alloc(address, size, kind)
        else:
            assert native.free(address) == twin.free(address)
    assert native.totals() == twin.totals()
    assert native.errors() == twin.errors()
    assert all(native.totals(kind) == twin.totals(kind) for kind in range(4))
    assert {entry[:3] for entry in native.live()} == {entry[:3] for entry in twin.live()}


def inner(table: Any, depth: int = 32) -> int:
    return int(table.capture(depth))


def test_a_stack_is_a_number_that_resolves_to_file_function_and_line(core: Any) -> None:
    table = core.StackTable()
    number = inner(table)
    frames = table.resolve(number)
    assert frames[0] == (__file__, "inner", inner.__code__.co_firstlineno + 1)
    assert frames[1][1] == "test_a_stack_is_a_number_that_resolves_to_file_function_and_line"


def test_the_same_stack_has_the_same_number_and_another_line_another(core: Any) -> None:
    table = core.StackTable()
    numbers = [inner(table) for _ in range(3)]
    assert len(set(numbers)) == 1
    assert inner(table) != numbers[0]


def test_depth_and_skip_choose_the_frames(core: Any) -> None:
    table = core.StackTable()
    assert [frame[1] for frame in table.resolve(inner(table, 1))] == ["inner"]
    assert table.resolve(table.capture(1, 1))[0][1] != "inner"
    assert table.resolve(0) == []
    with pytest.raises(KeyError):
        table.resolve(10_000)
    with pytest.raises(ValueError):
        table.capture(0)


def test_generators_and_recursion_are_walked(core: Any) -> None:
    table = core.StackTable()

    def generate() -> Any:
        yield table.capture()

    def dig(depth: int) -> int:
        return dig(depth - 1) if depth else next(generate())

    names = [frame[1].rsplit(".", 1)[-1] for frame in table.resolve(dig(5))]
    assert names[:7] == ["generate"] + ["dig"] * 6


def test_a_table_grows_and_keeps_its_numbers(core: Any) -> None:
    table = core.StackTable()
    first = inner(table)
    for i in range(2000):
        namespace: dict[str, Any] = {"table": table}
        exec(compile("\n" * i + "number = table.capture(1)", f"made-{i}.py", "exec"), namespace)
        assert table.resolve(namespace["number"]) == [(f"made-{i}.py", "<module>", i + 1)]
    assert table.resolve(first)[0][1] == "inner"
