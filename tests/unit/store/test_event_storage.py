from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from stepscope.errors import UsageError
from stepscope.model.memory_events import ALL_EVENTS
from stepscope.store.event_storage import EventFiles, InMemoryStorage
from tests.contract.test_event_storage import batch, times
from tests.unit.store.by_hand import PROCESS

HEADER = b'{"pid": 1}'


def test_memory_is_bounded_and_what_is_let_go_is_counted() -> None:
    storage = InMemoryStorage(max_events=30)
    for number in range(10):
        storage.store_events(batch(1000 * number, 9))
    assert times(storage, ALL_EVENTS)[0] == 7000
    assert storage.dropped_events == 70
    with pytest.raises(UsageError, match="max_events"):
        InMemoryStorage(max_events=0)


def test_a_folder_that_cannot_be_written_to_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UsageError, match="choose another folder"):
        EventFiles(tmp_path / "file" / "process", HEADER)


def test_files_go_on_in_the_next_one_and_each_can_be_read(tmp_path: Path) -> None:
    storage = EventFiles(tmp_path / "process", json.dumps(PROCESS).encode())
    for number in range(70):
        storage.store_events(batch(1_000_000 * number, 1999))
    assert len(list(tmp_path.glob("process.*.frames"))) == 2
    assert len(times(storage, ALL_EVENTS)) == 70 * 1999
    assert not storage.dropped_events


def test_events_whose_file_is_gone_are_counted_as_dropped(tmp_path: Path) -> None:
    storage = EventFiles(tmp_path / "process", json.dumps(PROCESS).encode())
    for number in range(70):
        storage.store_events(batch(1_000_000 * number, 1999))
    whole = len(times(storage, ALL_EVENTS))
    (tmp_path / "process.0000.frames").unlink()
    rest = len(times(storage, ALL_EVENTS))
    assert 0 < rest < whole
    assert storage.dropped_events == whole - rest


def test_what_comes_after_the_end_is_counted_as_dropped(tmp_path: Path) -> None:
    storage = EventFiles(tmp_path / "process", HEADER)
    storage.close()
    storage.store_events(batch(1000, 4))
    assert storage.dropped_events == 5


def test_a_forked_child_leaves_the_files_to_its_parent(tmp_path: Path) -> None:
    storage = EventFiles(tmp_path / "process", json.dumps(PROCESS).encode())
    child = os.fork()
    if child == 0:
        storage.store_events(batch(1000, 4))
        os._exit(0 if storage.dropped_events == 5 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert times(storage, ALL_EVENTS) == []
