"""Marks of the engine → time of each call, on timelines drawn by hand."""

from __future__ import annotations

from stepscope.collect.layer_backward import LayerCall, set_backward_times


def test_a_call_lasts_from_its_output_to_its_input() -> None:
    model = LayerCall(1, None)
    first, second = LayerCall(2, model), LayerCall(3, model)

    # Autograd tells of an inner call before the one around it where both return the same tensor.
    set_backward_times([
        (10, second, False), (10, model, False), (25, second, True),
        (30, first, False), (70, None, True),
    ])  # fmt: skip

    assert (model.backward_start, model.backward_lasted, model.backward_inside) == (10, 60, 55)
    assert (second.backward_lasted, first.backward_lasted) == (15, 40)


def test_the_next_call_ends_one_whose_input_is_not_complete_yet() -> None:
    model = LayerCall(1, None)
    q, k = LayerCall(2, model), LayerCall(3, model)

    set_backward_times([
        (0, model, False), (5, k, False), (20, q, False), (50, q, True), (50, k, True),
        (60, None, True),
    ])  # fmt: skip

    assert (k.backward_lasted, q.backward_lasted) == (15, 30)
    assert model.backward_lasted == 60
    assert model.backward_inside == 45


def test_the_end_of_a_call_ends_those_inside_it() -> None:
    model = LayerCall(1, None)
    block = LayerCall(2, model)
    inner = LayerCall(3, block)

    set_backward_times([(0, inner, False), (8, block, True), (9, inner, True), (12, None, True)])

    assert (inner.backward_lasted, block.backward_lasted, model.backward_lasted) == (8, 8, 12)


def test_a_graph_that_is_run_twice_counts_twice() -> None:
    model = LayerCall(1, None)

    set_backward_times([(1, model, False), (6, None, True), (20, model, False), (27, None, True)])

    assert (model.backward_start, model.backward_lasted) == (1, 12)


def test_a_run_that_never_ended_tells_nothing() -> None:
    model = LayerCall(1, None)

    set_backward_times([(5, model, False)])

    assert model.backward_lasted == 0
