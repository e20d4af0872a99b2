from __future__ import annotations

import json

import pytest

from stepscope.analyze.checkpoints import OTHERS, CheckpointFold
from stepscope.model import names
from stepscope.model.checkpoint_details import Checkpointing
from stepscope.model.process import ProcessInfo
from tests.unit.analyze.made import Event, batch, mark, sample, span
from tests.unit.analyze.made_evidence import trained

BLOCK = {"layer": "blocks.0", "file": "net.py", "line": 7, "function": "Net.forward.<lambda>"}
HEAD = {"layer": "head"}


def folded(*events: Event, rank: int = 0) -> Checkpointing | None:
    """`rank`: of the process that told; the loop is that of rank 0."""
    loop = trained(steps=50)
    fold = CheckpointFold()
    process = ProcessInfo(loop.pid, 1, rank, 1, "host", "program", (), "3.11", "native", 0, 0)
    fold.update(process, batch(list(events)))
    return fold.get([loop])


def again(number: int, lasted_ms: float) -> Event:
    return span(names.CHECKPOINT_AGAIN, 50.0, 50.0 + lasted_ms, number)


def test_times_are_means_of_a_step_and_bytes_those_of_sampled_steps() -> None:
    found = folded(
        mark(names.CHECKPOINT_LAYER, 1, 1, json.dumps(BLOCK)),
        mark(names.CHECKPOINT_LAYER, 1, 2, json.dumps(HEAD)),
        *[again(1, 4.0)] * 50,
        *[again(2, 1.0)] * 100,
        sample(names.CHECKPOINT_SAVED, 60, 100.0, 1),
        sample(names.CHECKPOINT_SAVED, 70, 300.0, 1),
        sample(names.CHECKPOINT_SAVED, 60, 1000.0, 2),
        sample(names.CHECKPOINT_LEFT, 60, 9e9, 10),
        sample(names.CHECKPOINT_LEFT, 70, 8e9, 10),
    )
    assert found is not None
    block, head = found.layers  # the one that is least worth it first
    assert (block.layer, block.calls, block.recompute_ms, block.saved_bytes) == (
        "blocks.0", 1.0, 4.0, 200.0,
    )  # fmt: skip
    assert (block.location.file, block.location.line) == ("net.py", 7)
    assert block.location.function == "Net.forward"
    assert block.bytes_per_ms == 50.0
    assert (head.layer, head.calls, head.recompute_ms, head.location.file) == (
        "head", 2.0, 2.0, None,
    )  # fmt: skip
    assert found.recompute_ms == 6.0
    assert found.share == pytest.approx(6 / 101, abs=0.001)
    assert (found.saved_bytes, found.left_bytes, found.steps) == (1200.0, 8e9, 50)


def test_bytes_that_are_not_known_of_all_layers_have_no_sum() -> None:
    found = folded(again(1, 4.0), again(2, 4.0), sample(names.CHECKPOINT_SAVED, 60, 100.0, 1))
    assert found is not None
    assert found.saved_bytes is None
    assert [layer.bytes_per_ms for layer in found.layers] == [100.0 / (4.0 / 50), None]


@pytest.mark.parametrize("text", ["[]", "{}", '{"layer": "a", "file": 3, "line": "x"}', "null"])
def test_a_mark_that_cannot_be_read_is_passed_over(text: str) -> None:
    found = folded(mark(names.CHECKPOINT_LAYER, 1, 1, text), again(1, 4.0))
    assert found is not None
    assert found.layers[0].layer in (OTHERS, "a")
    assert found.layers[0].location.file is None


def test_a_program_without_recomputation_has_none() -> None:
    assert folded(mark(names.CHECKPOINT_LAYER, 1, 1, json.dumps(BLOCK))) is None
    assert folded(again(1, 4.0), rank=3) is None
