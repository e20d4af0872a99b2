from __future__ import annotations

from pathlib import Path

from stepscope.record.frames import STATUS, STATUS_MAGIC
from stepscope.store.status import ENDED_PID, join_ended_pages, read_status_pages


def write(folder: Path, pid: int, recorded: int = 10, lost: int = 0) -> None:
    page = STATUS.pack(STATUS_MAGIC, pid, recorded, 0, lost, 0, 3, b"forward")
    (folder / f"{pid}.status").write_bytes(page)


def test_pages_of_processes_that_ended_and_lost_nothing_become_one(tmp_path: Path) -> None:
    for round_ in range(3):
        for pid in range(1000 * round_ + 100, 1000 * round_ + 200):
            write(tmp_path, pid, lost=5 if pid == 150 else 0)
        join_ended_pages(tmp_path, lambda pid: pid == 160)
    pages = {page.pid: page for page in read_status_pages(tmp_path)}
    assert set(pages) == {ENDED_PID, 150, 160}
    assert pages[150].lost == 5
    assert sum(page.recorded for page in pages.values()) == 300 * 10


def test_a_few_pages_stay_as_they_are(tmp_path: Path) -> None:
    for pid in range(100, 110):
        write(tmp_path, pid)
    join_ended_pages(tmp_path, lambda pid: False)
    assert len(read_status_pages(tmp_path)) == 10
