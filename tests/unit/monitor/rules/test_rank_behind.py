"""A rank that the others wait for."""

from __future__ import annotations

import pytest

from tests.unit.monitor.streams import Run, monitor_of


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_the_rank_that_needs_longer_by_itself_is_named(ranks: int) -> None:
    run = Run(
        monitor_of(),
        ranks=ranks,
        extra_s=lambda number, rank: {"forward": 0.03} if rank == 1 else {},
    )
    run.train(300)
    (alert,) = run.firing
    assert (alert.rule, alert.finding.kind, alert.ranks) == ("rank_behind", "straggler", (1,))
    assert alert.finding.share == pytest.approx(0.23, abs=0.04)
    assert any(line.startswith("forward:") for line in alert.finding.evidence)


def test_ranks_that_differ_by_noise_wait_for_nobody() -> None:
    assert Run(monitor_of(), ranks=4, noise=0.05).train(600).told == []


def test_one_rank_alone_is_behind_nobody() -> None:
    run = Run(monitor_of(), extra_s=lambda number, rank: {"forward": 0.03})
    assert run.train(300).told == []


def test_a_rank_that_is_a_little_slower_is_not_worth_a_word() -> None:
    run = Run(
        monitor_of(),
        ranks=4,
        extra_s=lambda number, rank: {"forward": 0.004} if rank == 1 else {},
    )
    assert run.train(600).told == []
