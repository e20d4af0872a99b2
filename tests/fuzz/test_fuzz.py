"""Some hundred damaged inputs for each reader; `make fuzz` feeds 20,000."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.harness import Target, feed_all
from tests.fuzz.targets import all_targets

INPUTS = 200


@pytest.mark.parametrize("target", all_targets().values(), ids=lambda target: target.name)
def test_every_damaged_input_is_read_or_refused(target: Target, tmp_path: Path) -> None:
    feed = target.setup(tmp_path)

    *_, tally = feed_all(target, feed, seed=1, numbers=range(INPUTS))

    assert tally.inputs == INPUTS
    assert tally.accepted, "the reader refuses everything, so its checks are not reached"
    assert tally.defects == 0, "\n".join(tally.examples)
