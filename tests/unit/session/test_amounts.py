from __future__ import annotations

import pytest

from stepscope.errors import UsageError
from stepscope.session.amounts import disk_limit_bytes, duration_s


def test_sizes_are_read_as_people_write_them() -> None:
    assert disk_limit_bytes("500MB") == 500_000_000
    assert disk_limit_bytes("1GiB") == 1 << 30
    assert disk_limit_bytes("0") == 0


@pytest.mark.parametrize("text", ["1MB", "50%", "much", "-5GB", ""])
def test_what_is_no_size_for_a_run_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        disk_limit_bytes(text)


def test_a_word_that_is_no_size_is_told_apart_from_one_that_is_too_small() -> None:
    with pytest.raises(UsageError, match="'much' is no size: write 500MB"):
        disk_limit_bytes("much")
    with pytest.raises(UsageError, match="20MB is the least"):
        disk_limit_bytes("1MB")


def test_times_are_read_as_people_write_them() -> None:
    written = ("90s", "10m", " 1.5 h ", "30", "250ms")
    assert [duration_s("--for", text) for text in written] == [90.0, 600.0, 5400.0, 30.0, 0.25]


@pytest.mark.parametrize("text", ["soon", "0", "-5s", "5GB", "1h30m", "", "9" * 400])
def test_what_is_no_time_is_refused_by_the_name_of_its_option(text: str) -> None:
    with pytest.raises(UsageError, match=f"^--budget '{text}' is no time: write 90s, 10m or 1h"):
        duration_s("--budget", text)
