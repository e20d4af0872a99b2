"""Every activation checkpoint is seen at torch's own door, and none of them is changed by that."""

from __future__ import annotations

import doctest
import functools
import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.utils.checkpoint as checkpointing
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from stepscope.collect import checkpoint_layers
from stepscope.collect.checkpoints import CheckpointCall, CheckpointDoor, door
from tests.unit.collect.test_dynamo import counted

ROWS, WIDTH, INNER = 4, 8, 16


class Heard:
    """Keeps what it was told: (what, the call)."""

    def __init__(self, wants_bytes: bool = True) -> None:
        self.wants_bytes = wants_bytes
        self.told: list[tuple[str, CheckpointCall]] = []
        self.durations_ns: list[int] = []

    def checkpointed(self, call: CheckpointCall, duration_ns: int) -> None:
        self.told.append(("checkpointed", call))
        self.durations_ns.append(duration_ns)

    def recomputed(self, call: CheckpointCall, duration_ns: int) -> None:
        self.told.append(("recomputed", call))
        self.durations_ns.append(duration_ns)

    def released(self, call: CheckpointCall) -> None:
        self.told.append(("released", call))

    def layers(self, what: str = "checkpointed") -> list[str]:
        return [call.layer for told, call in self.told if told == what]

    def calls(self, what: str = "checkpointed") -> list[CheckpointCall]:
        return [call for told, call in self.told if told == what]


@pytest.fixture
def heard() -> Iterator[Heard]:
    listener = Heard()
    door().add(listener)
    before = door().errors
    yield listener
    door().remove(listener)
    assert door().errors == before


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.narrow(self.drop(torch.tanh(self.wide(x))))


class Net(nn.Module):
    def __init__(self, how: Callable[[Block], Any] = lambda block: block, **options: Any) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.how, self.options = how, {"use_reentrant": False, **options}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = checkpoint(self.how(block), x, **self.options)
        return x


def gradients(make: Callable[[], nn.Module], backwards: int = 1) -> list[torch.Tensor]:
    torch.manual_seed(7)
    model = make()
    given = torch.randn(ROWS, WIDTH, requires_grad=True)
    loss = model(given).square().sum()
    for left in reversed(range(backwards)):
        loss.backward(retain_graph=left > 0)
    return [one.grad for one in (given, *model.parameters())]


def keep_products(_: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
    products = (torch.ops.aten.addmm.default, torch.ops.aten.mm.default)
    policy = checkpointing.CheckpointPolicy
    return policy.MUST_SAVE if op in products else policy.PREFER_RECOMPUTE


def selective() -> Any:
    return checkpointing.create_selective_checkpoint_contexts(keep_products)


def nested() -> nn.Module:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.net = nn.Linear(WIDTH, WIDTH), Net()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return checkpoint(self.net, self.first(x), use_reentrant=False)

    return Outer()


PROGRAMS = {
    "plain": Net,
    "no early stop": functools.partial(Net, early_stop=False),
    "no check": functools.partial(Net, determinism_check="none"),
    "debug": functools.partial(Net, debug=True),
    "selective": functools.partial(Net, context_fn=selective),
    "reentrant": functools.partial(Net, use_reentrant=True),
    "nested": nested,
}


@pytest.mark.parametrize("make", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_gradients_are_the_same_to_the_bit(make: Callable[[], nn.Module]) -> None:
    bare = gradients(make)
    listener = Heard()
    door().add(listener)
    try:
        seen = gradients(make)
    finally:
        door().remove(listener)
    assert all(torch.equal(one, other) for one, other in zip(bare, seen, strict=True))
    assert bool(listener.told) != (make is PROGRAMS["debug"])  # torch takes no contexts there


def test_each_block_is_told_when_it_ran_was_recomputed_and_let_go(heard: Heard) -> None:
    gradients(Net)
    gc.collect()
    names = ["blocks.0", "blocks.1", "blocks.2"]
    assert heard.layers() == names
    assert heard.layers("recomputed") == names[::-1]
    assert sorted(heard.layers("released")) == names
    assert all(duration_ns > 0 for duration_ns in heard.durations_ns)
    assert all(call.recomputations == 1 and call.started_ns > 0 for call in heard.calls())


def test_bytes_are_those_of_the_storages_that_were_not_kept(heard: Heard) -> None:
    gradients(Net)
    # tanh's result, the mask of dropout (which on the CPU is of floats) and what dropout gave. The
    # block's argument, its result and its parameters are there anyway.
    inner = ROWS * INNER * 4
    assert [call.saved_bytes for call in heard.calls()] == [3 * inner] * 3
    assert [call.kept_bytes for call in heard.calls()] == [ROWS * WIDTH * 4] * 3


def test_what_a_policy_keeps_is_not_saved(heard: Heard) -> None:
    def run(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x @ weight).square().sum()

    weight, given = torch.randn(WIDTH, INNER, requires_grad=True), torch.randn(ROWS, WIDTH)
    checkpoint(run, given, use_reentrant=False, context_fn=selective).backward()
    # The product itself is not needed for backward of tanh; its result is, and is not kept.
    assert [call.saved_bytes for call in heard.calls()] == [ROWS * INNER * 4]
    heard.told.clear()

    def dear(x: torch.Tensor) -> torch.Tensor:
        return (x @ weight).square().sum()

    checkpoint(dear, given, use_reentrant=False, context_fn=selective).backward()
    assert [call.saved_bytes for call in heard.calls()] == [0]


@pytest.mark.parametrize("reentrant", [False, True])
def test_arguments_that_are_kept_only_for_it_are_taken_off(heard: Heard, reentrant: bool) -> None:
    def shifted(x: torch.Tensor) -> torch.Tensor:
        return (x + 1).tanh().square().sum()  # keeps the results of tanh, not what it was given

    given = torch.randn(ROWS, WIDTH, requires_grad=True)
    checkpoint(shifted, given * 2, use_reentrant=reentrant).backward()  # nobody else keeps that
    assert [call.saved_bytes for call in heard.calls()] == [0]
    if not reentrant:
        heard.told.clear()
        checkpoint(shifted, given.exp(), use_reentrant=False).backward()  # exp keeps its result
        assert [call.saved_bytes for call in heard.calls()] == [ROWS * WIDTH * 4]


def test_without_a_wish_for_bytes_none_are_counted() -> None:
    listener = Heard(wants_bytes=False)
    door().add(listener)
    try:
        gradients(Net)
    finally:
        door().remove(listener)
    assert {(call.saved_bytes, call.kept_bytes) for call in listener.calls()} == {(-1, -1)}


def test_reentrant_ones_know_their_bytes_when_they_are_recomputed(heard: Heard) -> None:
    gradients(functools.partial(Net, use_reentrant=True))
    assert heard.layers() == ["blocks.0", "blocks.1", "blocks.2"]
    assert heard.layers("recomputed") == ["blocks.2", "blocks.1", "blocks.0"]
    assert [call.saved_bytes for call in heard.calls("recomputed")] == [3 * ROWS * INNER * 4] * 3


def test_a_second_backward_recomputes_again(heard: Heard) -> None:
    gradients(Net, backwards=2)
    assert [call.recomputations for call in heard.calls()] == [2, 2, 2]
    assert heard.layers("released").count("blocks.0") == 1


def test_nested_ones_are_calls_of_their_own_and_tell_their_depth(heard: Heard) -> None:
    gradients(nested)
    first = [(call.layer, call.depth) for call in heard.calls()][:4]
    inner = [(f"net.blocks.{number}", 1) for number in range(3)]
    assert first == [*inner, ("net", 0)]
    # The outer one is computed again once, up to where torch has what the last inner one was given.
    assert heard.layers("recomputed").count("net") == 1
    assert heard.layers()[4:] == ["net.blocks.0", "net.blocks.1"]


def test_a_function_that_raises_raises_the_same_and_is_not_told(heard: Heard) -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        raise KeyError("of the program")

    for reentrant in (False, True):
        with pytest.raises(KeyError, match="of the program"):
            checkpoint(broken, torch.ones(2, requires_grad=True), use_reentrant=reentrant)
    assert not heard.told
    assert door().running.depth == 0


def test_a_listener_that_raises_does_not_reach_the_program() -> None:
    class Broken(Heard):
        def checkpointed(self, call: CheckpointCall, duration_ns: int) -> None:
            raise ValueError("of a listener")

    listener, place = Broken(), CheckpointDoor()
    failures: list[str] = []
    place.failed = lambda where, error: failures.append(f"{where}: {error}")
    place.add(listener)
    try:
        gradients(Net)
    finally:
        place.remove(listener)
    assert failures == ["checkpoints: of a listener"] * 3


@pytest.mark.parametrize("broken", ["_is_traced", "_names", "_weak"])
@pytest.mark.parametrize("reentrant", [False, True])
def test_an_error_of_ours_does_not_reach_the_program(broken: str, reentrant: bool) -> None:
    make = functools.partial(Net, use_reentrant=reentrant)
    bare = gradients(make)
    listener, place = Heard(), CheckpointDoor()
    place.add(listener)
    try:
        setattr(place, broken, None)  # whatever is asked of it raises
        seen = gradients(make)
    finally:
        place.remove(listener)
    assert all(torch.equal(one, other) for one, other in zip(bare, seen, strict=True))
    assert place.errors or (broken == "_weak" and reentrant)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_shut_door_keeps_everything(heard: Heard, reentrant: bool) -> None:
    class Ours:
        layer_id = "ours"

        def __init__(self, block: Block) -> None:
            self.block = block

        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return self.block(x)

    make = functools.partial(Net, use_reentrant=reentrant)
    bare = gradients(make)
    gc.collect()
    heard.told.clear()
    door().shut = True
    try:
        seen = gradients(make)
        assert not heard.told
        gradients(functools.partial(Net, Ours, use_reentrant=reentrant))
    finally:
        door().shut = False
    assert all(torch.equal(one, other) for one, other in zip(bare, seen, strict=True))
    assert heard.layers() == ["ours"] * 3


def test_nothing_is_left_behind() -> None:
    before = (
        checkpointing._checkpoint_without_reentrant_generator,
        dict(checkpointing._allowed_determinism_checks_to_fns),
        dict(vars(checkpointing.CheckpointFunction)),
    )
    listener = Heard()
    door().add(listener)
    assert checkpointing._checkpoint_without_reentrant_generator is not before[0]
    loss = Net()(torch.randn(ROWS, WIDTH, requires_grad=True)).sum()
    door().remove(listener)
    assert checkpointing._checkpoint_without_reentrant_generator is before[0]
    assert checkpointing._allowed_determinism_checks_to_fns == before[1]
    assert dict(vars(checkpointing.CheckpointFunction)) == before[2]
    told = len(listener.told)
    loss.backward()  # of a graph that was made while the door stood
    assert len(listener.told) == told


WAYS: dict[str, tuple[Callable[[Block], Any], list[str]]] = {
    "method": (lambda block: block.forward, ["blocks.0", "blocks.1", "blocks.2"]),
    "partial": (
        lambda block: functools.partial(functools.partial(block.__call__)),
        ["blocks.0", "blocks.1", "blocks.2"],
    ),
    "closure": (lambda block: lambda x: block(x) * 1, ["blocks.0", "blocks.1", "blocks.2"]),
    "partial of a function": (
        lambda block: functools.partial(lambda one, x: one(x), block),
        ["blocks.0", "blocks.1", "blocks.2"],
    ),
}


@pytest.mark.parametrize(("how", "names"), WAYS.values(), ids=WAYS.keys())
def test_the_module_behind_a_function_is_found(
    heard: Heard, how: Callable[[Block], Any], names: list[str]
) -> None:
    gradients(functools.partial(Net, how))
    assert heard.layers() == names


def test_a_function_without_a_module_has_its_own_name_and_line(heard: Heard) -> None:
    def squared(x: torch.Tensor) -> torch.Tensor:
        return x.square()

    x = torch.ones(2, requires_grad=True)
    checkpoint(squared, x, use_reentrant=False)
    checkpoint(lambda x: x.exp(), x, use_reentrant=False)
    own = "test_a_function_without_a_module_has_its_own_name_and_line"
    first, second = heard.calls()
    assert first.layer == f"{own}.<locals>.squared"
    assert first.location is not None
    assert second.location is not None
    assert first.location.file == __file__
    assert first.location.function == own
    assert second.location.line == first.location.line + 1
    assert second.layer == f"{own}.<locals>.<lambda>:{second.location.line}"


def test_runs_of_a_sequential_are_named_by_their_ends(heard: Heard) -> None:
    class Deep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(*(Block() for _ in range(6)))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return checkpoint_sequential(self.layers, 3, x, use_reentrant=False)

    gradients(Deep)
    assert heard.layers() == ["layers[0..1]", "layers[2..3]"]
    assert heard.calls()[0].location[2].endswith("Deep.forward")  # type: ignore[index]


def test_checkpoints_of_torchs_composable_interface_are_seen() -> None:
    composable = pytest.importorskip("torch.distributed._composable.checkpoint_activation")

    def make() -> nn.Module:
        return nn.Sequential(nn.Linear(WIDTH, WIDTH), composable.checkpoint(Block()))

    bare = gradients(make)
    listener = Heard()
    door().add(listener)
    try:
        seen = gradients(make)
    finally:
        door().remove(listener)
    assert all(torch.equal(one, other) for one, other in zip(bare, seen, strict=True))
    assert len(listener.layers()) == len(listener.layers("recomputed")) == 1
    assert listener.layers() == ["1"]


def test_the_examples_of_names_are_true() -> None:
    done = doctest.testmod(checkpoint_layers)
    assert (done.failed, done.attempted > 0) == (0, True)


def test_without_gradients_there_is_no_checkpoint(heard: Heard) -> None:
    with torch.no_grad():
        Net()(torch.ones(ROWS, WIDTH))
    assert not heard.told


def compiled_as_a_whole() -> None:
    torch.compile(Net(), backend="aot_eager")(torch.ones(ROWS, WIDTH)).sum().backward()


def compiled_in_parts() -> None:
    model = Net(lambda block: torch.compile(block, backend="aot_eager"))
    for _ in range(2):
        model(torch.ones(ROWS, WIDTH)).sum().backward()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", [compiled_as_a_whole, compiled_in_parts])
def test_compiled_programs_have_the_same_graphs(program: Callable[[], None]) -> None:
    bare = counted(program)
    listener = Heard()
    door().add(listener)
    try:
        assert counted(program) == bare
    finally:
        door().remove(listener)
    assert bool(listener.told) == (program is compiled_in_parts)


def test_the_beginning_of_a_recomputation_is_told_to_who_wants_to_know() -> None:
    told: list[tuple[str, bool]] = []

    class Listener:
        def checkpointed(self, call: CheckpointCall, duration_ns: int) -> None:
            told.append(("checkpointed", call.is_repeated))

        def recomputing(self, call: CheckpointCall) -> None:
            told.append(("recomputing", call.is_repeated))

        def recomputed(self, call: CheckpointCall, duration_ns: int) -> None:
            told.append(("recomputed", call.is_repeated))

        def released(self, call: CheckpointCall) -> None: ...

    def inner(x: torch.Tensor) -> torch.Tensor:
        return x.sin().exp()

    def outer(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(inner, x, use_reentrant=False).sin()

    listener = Listener()
    door().add(listener)
    try:
        x = torch.ones(3, requires_grad=True)
        checkpoint(outer, x, use_reentrant=False).sum().backward()
    finally:
        door().remove(listener)

    # The inner one is made again while the outer one is recomputed: it is repeated.
    assert told[:3] == [("checkpointed", False), ("checkpointed", False), ("recomputing", False)]
    assert ("checkpointed", True) in told[3:]
