"""Layers, operators and traits from batches made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stepscope.analyze.fold import LoopFold
from stepscope.analyze.layers import LayerFold, LayersFound
from stepscope.model import names
from stepscope.model.process import ProcessInfo
from tests.unit.analyze import made
from tests.unit.analyze.made import MS, Event, batch, sample, span

PROCESS = ProcessInfo(
    pid=7, parent_pid=1, rank=0, world_size=1, host="here", role="program", argv=(),
    python="3", core="python", monotonic_ns=0, unix_ns=0,
)  # fmt: skip


def mark(name: str, at: float, arg: int = 0, text: str = "") -> Event:
    return {key: value for key, value in made.mark(name, at, arg, text).items() if value != ""}


def fold(*batches: list[Event]) -> LayersFound:
    layers, loop = LayerFold(), LoopFold(0, 7, 0)
    for events in batches:
        taken = batch(events)
        layers.update(PROCESS, taken)
        loop.update(taken)
    found = loop.get()
    return layers.get([found] if found else [])


def step(at: float, lasted: float = 10.0, optimizer: int = 1) -> list[Event]:
    """A training step, whose optimizer takes its last millisecond."""
    return [
        span(names.FORWARD, at, at + 1, arg=5, value=1.0),
        span(names.BACKWARD, at + 1, at + 2),
        span(names.OPTIMIZER_STEP, at + lasted - 1, at + lasted, arg=optimizer),
    ]


def layer(number: int, path: str, kind: str, root: int) -> Event:
    return mark(names.LAYER, 0, number, f"{path}\t{kind}\t{root}")


def sampled(at: float, *told: Event) -> list[Event]:
    return [mark(names.LAYERS_BEGIN, at, 2), *told, mark(names.LAYERS_END, at + 9, 100)]


MODEL = [layer(1, "", "Net", 1), layer(2, "a", "Linear", 1), layer(3, "b", "Tanh", 1)]


def test_times_are_means_of_the_sampled_steps() -> None:
    one = sampled(
        10, *MODEL,
        span(names.LAYER_FORWARD, 10, 12, 2), span(names.LAYER_FORWARD, 12, 14, 2),
        span(names.LAYER_FORWARD, 14, 15, 3), span(names.LAYER_FORWARD, 10, 16, 1, 5 * MS),
        span(names.LAYER_BACKWARD, 20, 28, 2), span(names.LAYER_BACKWARD, 18, 30, 1, 8 * MS),
        sample(names.LAYER_SAVED_BYTES, 17, 4096.0, 2),
    )  # fmt: skip
    two = sampled(40, span(names.LAYER_FORWARD, 40, 44, 1, 0.0))

    found = fold(step(0) + one, step(30) + two)

    assert found.layer_steps == 2
    net, linear, tanh = found.layers
    assert (net.path, net.kind, net.calls) == ("", "Net", 1)
    assert (net.forward_ms, net.self_forward_ms) == (5, 2.5)
    assert (net.backward_ms, net.self_backward_ms) == (6, 2)
    assert (linear.path, linear.calls, linear.forward_ms, linear.backward_ms) == ("a", 1, 2, 4)
    assert linear.memory_bytes == 2048
    assert (tanh.path, tanh.backward_ms, tanh.self_backward_ms) == ("b", None, None)
    assert tanh.memory_bytes is None


def test_a_step_that_was_not_told_to_its_end_does_not_count() -> None:
    cut = [mark(names.LAYERS_BEGIN, 1), *MODEL, span(names.LAYER_FORWARD, 1, 2, 1)]
    whole = sampled(20, span(names.LAYER_FORWARD, 20, 21, 1))

    found = fold(step(0) + cut, step(10) + whole)

    assert found.layer_steps == 1
    assert [(one.path, one.forward_ms) for one in found.layers] == [("", 1)]


def test_other_outermost_modules_stand_under_their_class() -> None:
    told = [
        layer(1, "", "Loss", 1), layer(2, "", "Net", 2), layer(3, "a", "Linear", 2),
        layer(4, "", "Net", 4), layer(5, "a", "Linear", 4), layer(6, "", "Net", 6),
    ]  # fmt: skip
    spans = [
        span(names.LAYER_FORWARD, 0, ms, number)
        for number, ms in ((1, 1), (2, 9), (3, 8), (4, 6), (5, 5), (6, 2))
    ]

    found = fold(step(0) + sampled(10, *told, *spans))

    assert [one.path for one in found.layers] == ["", "a", "Net", "Net.a", "Net#2", "Loss"]


def test_how_much_longer_sampled_steps_take() -> None:
    events: list[Event] = []
    at = 0.0
    for number in range(12):
        lasted = 15.0 if number == 5 else 10.0
        events += step(at, lasted)
        at += lasted
        if number == 4:
            events.append(mark(names.LAYERS_BEGIN, at))
        if number == 5:
            events += [*MODEL, span(names.LAYER_FORWARD, at - 9, at - 8, 1)]
            events.append(mark(names.LAYERS_END, at))

    assert fold(events).slowdown == pytest.approx(1.5)


def test_operators_are_shares_of_the_usual_step() -> None:
    told = [
        mark(names.OP, 25, 6 * MS, "aten::mm\t30\t3"),
        mark(names.OP, 25, 12 * MS, "aten::conv\t3\t3"),
    ]

    found = fold(step(0) + step(10) + step(20) + told)

    assert found.op_steps == 3
    assert [op.name for op in found.ops] == ["aten::conv", "aten::mm"]
    conv, mm = found.ops
    assert (conv.calls, conv.self_ms, mm.calls, mm.self_ms) == (1, 4, 10, 2)
    assert (conv.share, mm.share) == pytest.approx((0.4, 0.2))


def test_a_later_trait_replaces_an_earlier_one() -> None:
    told = [
        mark(names.TRAIT, 1, text="threads\t2"),
        mark(names.TRAIT, 2, text='dtypes\t{"float32": 1.0}'),
        mark(names.TRAIT, 3, text="threads\t4"),
        mark(names.TRAIT, 4, text="not readable"),
        mark(names.TRAIT, 4, text="threads\t{broken"),
    ]

    assert fold(step(0) + told).traits == {"threads": 4, "dtypes": {"float32": 1.0}}


def test_nothing_sampled_is_nothing_found() -> None:
    assert fold(step(0)) == LayersFound()
    assert fold([]) == LayersFound()


def test_layers_are_those_of_the_process_with_the_loop() -> None:
    layers, loop = LayerFold(), LoopFold(0, 7, 0)
    helper = replace(PROCESS, pid=8)
    layers.update(helper, batch(sampled(0, *MODEL, span(names.LAYER_FORWARD, 0, 5, 1))))
    loop.update(batch(step(0)))
    found = loop.get()
    assert found is not None

    assert layers.get([found]) == LayersFound()
