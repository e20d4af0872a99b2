"""How runs take turns, and how their turns are compared."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from turns import Player, TurnsError, play, turn_ratios

RUN = """
import os, sys
go = os.open(sys.argv[1] + "/go", os.O_RDONLY)
done = os.open(sys.argv[1] + "/done", os.O_WRONLY)
for turn in range(4):
    os.read(go, 1)
    with open(sys.argv[2], "a") as log:
        log.write(sys.argv[3])
    os.write(done, b".")
"""


def test_a_turn_is_compared_with_the_one_beside_it_and_the_first_does_not_count() -> None:
    # GIVEN three turns of two steps; the machine is twice as slow in the last one
    bare = [9.0, 9.0, 1.0, 1.0, 2.0, 2.0]
    ours = [1.0, 1.0, 1.1, 1.1, 2.4, 2.4]

    assert turn_ratios(ours, bare, 2) == pytest.approx([1.1, 1.2])


def test_two_runs_work_in_turns_and_never_at_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    players = [Player(tmp_path / name) for name in ("a", "b")]
    runs = [
        subprocess.Popen([sys.executable, "-c", RUN, str(p.folder), str(log), p.folder.name])
        for p in players
    ]

    play(players, 4, lambda: True)

    assert [run.wait() for run in runs] == [0, 0]
    assert log.read_text() == "abbaabba"
    for player in players:
        player.close()


def test_a_run_that_died_is_told(tmp_path: Path) -> None:
    player = Player(tmp_path / "a")

    with pytest.raises(TurnsError, match="did not get to its end"):
        play([player], 1, lambda: False)
    player.close()
