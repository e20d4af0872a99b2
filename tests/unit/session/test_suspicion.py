"""Stacks are sampled while something is suspected, and not otherwise."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from stepscope.model import names
from stepscope.record.core import core
from stepscope.record.recorder import Recorder
from stepscope.session.suspicion import Suspicion
from tests.contract.frames_reader import decode
from tests.unit.monitor.streams import condition

SLOW, FULL = condition(asks="phase:forward"), condition(rule="memory", asks="memory")


@pytest.fixture
def recorder(tmp_path: Path) -> Any:
    recorder = Recorder(core)
    recorder.open(str(tmp_path / "p"), b"{}")
    yield recorder
    recorder.close()


def stacks(recorder: Recorder, folder: Path) -> int:
    recorder.flush()
    found = b"".join(path.read_bytes() for path in sorted(folder.glob("*.frames")))
    return len(decode(found).named(names.STACK)) if found else 0


def wait_for_more(recorder: Recorder, folder: Path, than: int) -> None:
    end_s = time.monotonic() + 30.0
    while stacks(recorder, folder) <= than:
        assert time.monotonic() < end_s, "no stack was sampled"
        time.sleep(0.02)


def test_while_something_is_suspected_stacks_are_sampled(
    recorder: Recorder, tmp_path: Path
) -> None:
    suspicion = Suspicion(recorder)
    suspicion.update([])
    suspicion.update([FULL])
    assert stacks(recorder, tmp_path) == 0, "of memory stacks tell nothing"
    suspicion.update([FULL, SLOW])
    wait_for_more(recorder, tmp_path, 5)
    suspicion.update([])
    before = stacks(recorder, tmp_path)
    time.sleep(0.2)
    assert stacks(recorder, tmp_path) == before


def test_what_was_seen_can_be_read_back_when_it_becomes_an_alert(
    recorder: Recorder, tmp_path: Path
) -> None:
    suspicion = Suspicion(recorder)
    suspicion.confirm()  # nothing was suspected, and nothing is there
    assert not list(tmp_path.iterdir())
    suspicion.update([condition(asks="stall")])
    wait_for_more(recorder, tmp_path, 5)
    recorder.flush()
    before = sum(path.stat().st_size for path in tmp_path.iterdir())
    suspicion.confirm()
    after = b"".join(path.read_bytes() for path in sorted(tmp_path.iterdir()))
    assert len(after) > before
    named = {row["arg"] for row in decode(after).named(names.STACK_FRAME)}
    assert {row["arg"] for row in decode(after).named(names.STACK)} <= named
    suspicion.end()


def test_an_end_without_a_beginning_is_none(recorder: Recorder) -> None:
    Suspicion(recorder).end()
