"""Batches in a row are one, and parts of one are views of it."""

from __future__ import annotations

from dataclasses import replace

from stepscope.model.event import joined
from tests.unit.analyze.made import batch, step, training


def test_batches_with_the_same_names_become_one_with_all_rows_in_order() -> None:
    whole = batch(training(6))
    parts = [whole.part(start, start + 8) for start in range(0, whole.count, 8)]
    assert len(parts) == 3
    (found,) = joined(parts)
    assert list(found.rows()) == list(whole.rows())


def test_batches_with_names_of_their_own_stay_apart() -> None:
    one, other = batch(step(0.0)), batch(step(100.0))
    alike = replace(one)
    assert joined([one, other]) == [one, other]
    assert [each.count for each in joined([one, alike, other])] == [8, 4]
    assert joined([]) == []


def test_a_part_has_its_rows_and_the_whole_is_itself() -> None:
    whole = batch(training(2))
    assert list(whole.part(3, 6).rows()) == list(whole.rows())[3:6]
    assert whole.part(0, whole.count) is whole
