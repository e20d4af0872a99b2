"""The list of originals that a program has removed."""

from __future__ import annotations

from pathlib import Path

from stepscope.tune.guard.gone import Gone


def test_what_is_below_a_removed_folder_is_hidden_too(tmp_path: Path) -> None:
    gone = Gone(str(tmp_path / "gone"))
    gone.add("/a/b")
    assert gone.hides("/a/b")
    assert gone.hides("/a/b/c/d")
    assert not gone.hides("/a")
    assert not gone.hides("/a/bc")
    assert gone.inside("/a") == {"b"}


def test_another_process_learns_of_it_once(tmp_path: Path) -> None:
    ours, theirs = Gone(str(tmp_path / "gone")), Gone(str(tmp_path / "gone"))
    ours.add("/a/b")
    assert not theirs.hides("/a/b")
    read_bytes = theirs.refresh()
    assert theirs.hides("/a/b")
    assert theirs.refresh() == read_bytes == len("/a/b") + 1


def test_one_that_starts_later_knows_all(tmp_path: Path) -> None:
    Gone(str(tmp_path / "gone")).add("/a/é\nb")
    later = Gone(str(tmp_path / "gone"))
    later.refresh()
    assert later.hides("/a/é\nb")


def test_an_entry_that_is_still_being_written_waits(tmp_path: Path) -> None:
    gone = Gone(str(tmp_path / "gone"))
    (tmp_path / "gone").write_bytes(b"/a\0/b/hal")
    gone.refresh()
    assert gone.hides("/a")
    assert not gone.hides("/b/hal")
    (tmp_path / "gone").write_bytes(b"/a\0/b/half\0")
    gone.refresh()
    assert gone.hides("/b/half")


def test_news_without_a_removal_hide_nothing(tmp_path: Path) -> None:
    gone = Gone(str(tmp_path / "gone"))
    before = gone.refresh()
    gone.tell_changed()
    assert gone.refresh() != before
    assert not gone.hides("/")
