from __future__ import annotations

from pathlib import Path

from stepscope.store.live_request import is_requested, request

NOW_UNIX = 1_800_000_000.0


def test_a_request_holds_for_ten_seconds(tmp_path: Path) -> None:
    assert not is_requested(tmp_path, NOW_UNIX)
    request(tmp_path, NOW_UNIX)
    assert is_requested(tmp_path, NOW_UNIX + 9.9)
    assert not is_requested(tmp_path, NOW_UNIX + 10.1)
    request(tmp_path, NOW_UNIX + 20)
    assert is_requested(tmp_path, NOW_UNIX + 25)


def test_a_request_from_the_future_does_not_hold_for_ever(tmp_path: Path) -> None:
    request(tmp_path, NOW_UNIX + 86_400)
    assert not is_requested(tmp_path, NOW_UNIX)
