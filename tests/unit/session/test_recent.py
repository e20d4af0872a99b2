"""The last events of a process and of those beside it, for a closer look."""

from __future__ import annotations

from pathlib import Path

from stepscope.model.event import Batch
from stepscope.session import recent
from stepscope.session.recent import recent_fold
from tests.unit.analyze.made import batch, training
from tests.unit.store.by_hand import whole_file


def test_only_the_last_events_are_looked_at() -> None:
    batches = [batch(training(2000, at=200_000.0 * number)) for number in range(4)]
    kept = recent._last(batches)
    assert kept == batches[-2:], "8,000 events each"
    assert recent._last(batches[:1]) == batches[:1]


def test_one_batch_is_kept_however_large_it_is() -> None:
    large = Batch(50_000, {}, {})
    assert recent._last([large]) == [large]


def test_files_of_other_ranks_are_not_ours_and_those_of_workers_are(tmp_path: Path) -> None:
    for name in ("rank-00000/41-1", "rank-00000/42-1", "rank-00001/43-1"):
        path = tmp_path / f"{name}.0000.frames"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(whole_file(pid=int(path.name[:2])))
    fold = recent_fold(tmp_path, tmp_path / "rank-00000" / "41-1")
    assert {key[1] for key in fold._processes} == {41, 42}


def test_without_files_nothing_is_known(tmp_path: Path) -> None:
    assert recent_fold(tmp_path / "gone", tmp_path / "gone" / "rank-00000" / "1-1").loops == []
