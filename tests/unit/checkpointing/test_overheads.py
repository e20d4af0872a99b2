from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from stepscope.checkpointing.meter import CpuMeter
from stepscope.checkpointing.overheads import measure_overheads


@pytest.fixture
def meter() -> Iterator[CpuMeter]:
    made = CpuMeter()
    yield made
    made.close()


def test_a_checkpoint_and_an_operator_that_is_watched_take_time(meter: CpuMeter) -> None:
    found = measure_overheads(meter, "cpu")

    assert found.call_ms > 0
    assert found.operator_ms > 0
    assert found.call_bytes == torch.get_rng_state().nbytes
