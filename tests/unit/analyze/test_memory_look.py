"""One step played again. Sizes are small numbers: nothing here knows of real blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from stepscope.analyze.memory_look import ALLOC, FREE, LABEL, BlockEvent, Look, play
from stepscope.model.memory import (
    ACTIVATION,
    CATEGORIES,
    GRADIENT,
    INPUT,
    OPTIMIZER_STATE,
    OTHER,
    PARAMETER,
    TEMPORARY,
)

WORKSPACE = 8


def label(category: str) -> int:
    return CATEGORIES.index(category) + 1


class Step:
    """Writes the events of a step down, one after the other."""

    def __init__(self, held: Mapping[tuple[int, int], tuple[int, int]] | None = None) -> None:
        self.held = dict(held or {})
        self.events: list[BlockEvent] = []
        self._live: dict[int, tuple[int, int, int]] = {}

    def alloc(self, address: int, size: int, span: str, mark: int = 0, layer: int = 0) -> Step:
        self._live[address] = (size, address, mark)
        return self._add(ALLOC, address, size, span, layer, mark)

    def free(self, address: int, span: str, size: int = 0, mark: int = 0) -> Step:
        size, _, mark = self._live.pop(address, (size, 0, mark))
        return self._add(FREE, address, size, span, 0, mark)

    def name(self, address: int, category: str) -> Step:
        size, stack, _ = self._live[address]
        self._live[address] = (size, stack, label(category))
        return self._add(LABEL, address, 0, "", 0, label(category))

    def _add(self, what: int, address: int, size: int, span: str, layer: int, mark: int) -> Step:
        at = len(self.events) + 1
        self.events.append(BlockEvent(what, at, address, size, address, layer, mark, span))
        return self

    def play(self) -> Look:
        return play(1, self.held, self.events, 0)


def sizes(look: Look) -> dict[str, int]:
    found: Counter[str] = Counter()
    for group, (size, _) in look.peak.items():
        found[group.category] += size
    return dict(found)


def test_what_forward_keeps_for_backward_is_an_activation_and_what_it_does_not_temporary() -> None:
    look = (
        Step()
        .alloc(1, 100, "forward")
        .alloc(2, 10, "forward")
        .free(2, "forward")
        .alloc(3, 20, "forward")
        .alloc(4, 7, "backward")
        .free(1, "backward")
        .free(3, "backward")
        .free(4, "backward")
        .play()
    )
    assert look.peak_bytes == 127
    assert sizes(look) == {ACTIVATION: 120, TEMPORARY: 7}
    assert [sum(point.bytes) for point in look.points] == [0, 100, 110, 100, 120, 127, 27, 7, 0]


def test_a_loss_is_an_activation_though_no_module_made_it() -> None:
    step = Step().alloc(1, 5, "forward").alloc(2, 3, "").alloc(3, 1, "backward").free(2, "backward")
    assert sizes(step.play()) == {ACTIVATION: 8, OTHER: 1}


def test_gradients_and_optimizer_state_are_known_by_their_labels_from_the_start() -> None:
    step = Step().alloc(1, 50, "backward").alloc(2, 80, "optimizer.step")
    step.name(1, GRADIENT).name(2, OPTIMIZER_STATE)
    assert sizes(step.play()) == {GRADIENT: 50, OPTIMIZER_STATE: 80}


def test_batches_are_input_by_their_span_or_because_the_model_was_given_them() -> None:
    step = (
        Step()
        .alloc(1, 10, "input.collate")
        .alloc(2, 20, "")
        .name(2, INPUT)
        .alloc(3, 5, "")  # of the loop's own, and gone when the model has used it
        .alloc(4, 1, "forward")
        .alloc(5, 1, "backward")
        .free(3, "")
    )
    assert sizes(step.play())[INPUT] == 35


def test_what_stays_and_no_model_has_seen_is_other() -> None:
    step = Step().alloc(1, 10, "").alloc(2, 1, "forward").alloc(3, 1, "backward")
    assert sizes(step.play())[OTHER] == 11


def test_workspaces_are_temporary_unless_the_library_keeps_them() -> None:
    step = (
        Step()
        .alloc(1, 10, "forward", WORKSPACE)
        .alloc(2, 5, "forward", WORKSPACE)
        .free(2, "forward")
    )
    assert sizes(step.play()) == {OTHER: 10, TEMPORARY: 5}


def test_what_was_there_before_is_what_its_label_says_or_what_its_line_makes_now() -> None:
    held = {(1, label(PARAMETER)): (1000, 4), (2, 0): (30, 1), (99, 0): (7, 1)}
    look = Step(held).alloc(2, 30, "input.next").free(50, "", 30, 0).play()
    # The free has no stack of ours: what it gave back was of the line it says.
    assert look.peak_bytes == 1067
    assert sizes(look) == {PARAMETER: 1000, INPUT: 60, OTHER: 7}


def test_accumulated_gradients_have_activations_in_each_round() -> None:
    step = (
        Step()
        .alloc(1, 10, "forward")
        .alloc(2, 1, "backward")
        .free(1, "backward")
        .alloc(3, 10, "forward")
        .alloc(4, 1, "backward")
        .free(3, "backward")
    )
    look = step.play()
    at = CATEGORIES.index(ACTIVATION)
    assert [point.bytes[at] for point in look.points] == [0, 10, 10, 0, 10, 10, 0]


@pytest.mark.parametrize("category", CATEGORIES)
def test_a_block_is_never_counted_twice(category: str) -> None:
    look = Step().alloc(1, 40, "forward", label(category)).play()
    assert sizes(look) == {category: 40}
    assert sum(sum(point.bytes) for point in look.points) == 40
