"""The fuzz harness itself."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from stepscope.errors import FormatError
from tests.fuzz import harness
from tests.fuzz.damage import damaged_bytes, damaged_json
from tests.fuzz.harness import Feed, Tally, Target, feed_all


def _run(feed: Feed, inputs: int) -> Tally:
    target = Target("made up", lambda _folder: feed)
    *_, tally = feed_all(target, target.setup(Path()), seed=0, numbers=range(inputs))
    return tally


def test_a_clear_refusal_is_no_defect() -> None:
    def feed(random: Random) -> None:
        if random.random() < 0.5:
            raise FormatError("this file is torn")

    tally = _run(feed, 100)

    assert tally.accepted + tally.refused == 100
    assert tally.accepted
    assert tally.refused
    assert tally.defects == 0


def test_any_other_exception_is_counted_with_an_example() -> None:
    def feed(_random: Random) -> None:
        raise KeyError("step_ms")

    tally = _run(feed, 3)

    assert tally.tracebacks == 3
    assert "KeyError: 'step_ms'" in tally.examples[0]


def test_an_endless_reader_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "HANG_S", 0.05)

    def feed(_random: Random) -> None:
        while True:
            pass

    assert _run(feed, 2).hangs == 2


def test_an_input_depends_on_its_number_alone() -> None:
    document = {"a": [1, 2, {"b": "text"}], "c": 3.5}

    assert damaged_json(document, Random("0/x/7")) == damaged_json(document, Random("0/x/7"))
    assert damaged_bytes(b"0123456789", Random(7)) == damaged_bytes(b"0123456789", Random(7))
    assert len({damaged_json(document, Random(n)) for n in range(100)}) > 50
