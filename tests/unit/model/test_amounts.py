"""Numbers with a unit."""

from __future__ import annotations

import pytest

from stepscope.model.amounts import DURATIONS_S, SHARES, SIZES_BYTES, read_amount, read_bytes


@pytest.mark.parametrize(
    ("text", "bytes_meant"),
    [
        ("4GiB", 4 * 2**30),
        (" 3.5 GB ", 3_500_000_000),
        ("800mib", 800 * 2**20),
        ("2k", 2048),
        ("1t", 2**40),
        ("17", 17),
        ("5 b", 5),
        ("-1MB", -1_000_000),
    ],
)
def test_a_size_is_read_as_people_write_it(text: str, bytes_meant: int) -> None:
    assert read_bytes(text) == bytes_meant


@pytest.mark.parametrize(
    "text", ["", "GiB", "four", "4XB", "60%", "1e9", "1,5GB", "٣GB", "9" * 400]
)
def test_what_is_no_size_is_told_from_one(text: str) -> None:
    assert read_bytes(text) is None


def test_a_unit_is_one_of_those_that_can_be_meant() -> None:
    assert read_amount("5m", DURATIONS_S) == 300.0
    assert read_amount("5m", SIZES_BYTES) is None
    assert read_amount("5%", SHARES) == 0.05
    assert read_amount("5%", DURATIONS_S) is None
    assert read_amount("5", {}) == 5.0
