from __future__ import annotations

import pytest

from stepscope.errors import UsageError
from stepscope.session.sizes import disk_limit_bytes


def test_sizes_are_read_as_people_write_them() -> None:
    assert disk_limit_bytes("500MB") == 500_000_000
    assert disk_limit_bytes("1GiB") == 1 << 30
    assert disk_limit_bytes("0") == 0


@pytest.mark.parametrize("text", ["1MB", "50%", "much", "-5GB", ""])
def test_what_is_no_size_for_a_run_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        disk_limit_bytes(text)
