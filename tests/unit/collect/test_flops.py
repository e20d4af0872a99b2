"""FLOPs of blocks, against numbers worked out by hand and against torch's own counter."""

from __future__ import annotations

import asyncio
import contextvars
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop, sdpa_flop

from stepscope.collect import flops
from stepscope.collect.flop_blocks import Block
from stepscope.collect.flops import FlopCounter

Run = Callable[[], Any]


def counted(run: Run, counter: FlopCounter | None = None) -> int | None:
    counter = counter or FlopCounter()
    token = counter.enter("run")
    try:
        run()
    finally:
        found = counter.leave(token)
    return found


def counted_by_torch(run: Run) -> int:
    aten = torch.ops.aten
    missing = {  # torch has no formula for these two, though they are what a CPU runs
        aten._scaled_dot_product_flash_attention_for_cpu: sdpa_flop.__wrapped__,
        aten._scaled_dot_product_flash_attention_for_cpu_backward: sdpa_backward_flop.__wrapped__,
    }
    with FlopCounterMode(display=False, custom_mapping=missing) as mode:
        run()
    return int(mode.get_total_flops())


def modes_left() -> int:
    return int(torch._C._len_torch_dispatch_stack())


def linear(backward: bool) -> Run:
    layer, x = torch.nn.Linear(16, 8), torch.randn(4, 16, requires_grad=True)
    return lambda: layer(x).sum().backward() if backward else layer(x)


def conv(backward: bool) -> Run:
    layer, x = torch.nn.Conv2d(3, 6, 3), torch.randn(2, 3, 10, 10, requires_grad=True)
    return lambda: layer(x).sum().backward() if backward else layer(x)


def attention(backward: bool) -> Run:
    q, k, v = (torch.randn(2, 4, 16, 8, requires_grad=True) for _ in range(3))

    def run() -> Any:
        out = F.scaled_dot_product_attention(q, k, v)
        return out.sum().backward() if backward else out

    return run


LINEAR = 2 * 4 * 16 * 8  # a multiply-add is two
CONV = 2 * (2 * 8 * 8) * 6 * (3 * 3 * 3)  # outputs × weights of each
ATTENTION = 2 * 2 * (2 * 4) * 16 * 16 * 8  # two products of 16 × 8 × 16, for 2 × 4 heads


@pytest.mark.parametrize(
    ("make", "backward", "by_hand"),
    [
        (linear, False, LINEAR),
        (linear, True, 3 * LINEAR),  # backward: one product for the input, one for the weights
        (conv, False, CONV),
        (conv, True, 3 * CONV),
        (attention, False, ATTENTION),
        (attention, True, ATTENTION + 5 * ATTENTION // 2),  # five products, one of them again
    ],
)
def test_counts_are_those_worked_out_by_hand_and_torchs(
    make: Callable[[bool], Run], backward: bool, by_hand: int
) -> None:
    run = make(backward)
    assert counted(run) == by_hand == counted_by_torch(run)


def test_attention_made_of_plain_products_counts_the_same() -> None:
    with sdpa_kernel(SDPBackend.MATH):
        assert counted(attention(backward=False)) == ATTENTION


@pytest.mark.parametrize("guard", [torch.inference_mode, torch.no_grad])
def test_code_without_gradients_is_counted(guard: Callable[[], Any]) -> None:
    run = linear(backward=False)
    with guard():
        assert counted(run) == LINEAR  # arrives as one composite operator in inference mode


def test_a_block_includes_the_blocks_inside_it() -> None:
    counter, run = FlopCounter(), linear(backward=False)
    outer = counter.enter("outer")
    run()
    inner = counter.enter("inner")
    run()
    run()
    assert counter.leave(inner) == 2 * LINEAR
    run()
    assert counter.leave(outer) == 4 * LINEAR
    assert modes_left() == 0


def test_blocks_of_two_counters_nest() -> None:
    run = linear(backward=False)
    assert counted(lambda: counted(run)) == LINEAR


def test_blocks_may_end_in_any_order() -> None:
    counter, run = FlopCounter(), linear(backward=False)
    first = counter.enter("first")
    second = counter.enter("second")
    run()
    assert counter.leave(first) == LINEAR
    run()
    assert counter.leave(second) == 2 * LINEAR
    run()
    assert counter.leave(second) is None, "it has ended already"
    assert modes_left() == 0


def test_blocks_that_end_elsewhere_are_not_held_by_the_next_ones() -> None:
    counter = FlopCounter()
    for _ in range(3):
        token = counter.enter("begins here")
        assert isinstance(token, Block)
        assert token.parent is None
        contextvars.copy_context().run(counter.leave, token)
    assert modes_left() == 0


def test_what_runs_outside_of_blocks_is_not_counted() -> None:
    counter, run = FlopCounter(), linear(backward=False)
    counter.leave(counter.enter("before"))
    run()
    assert counted(run, counter) == LINEAR


def test_no_torch_work_is_zero_and_not_unknown() -> None:
    assert counted(lambda: None) == 0


def test_threads_are_counted_apart() -> None:
    counter = FlopCounter()
    barrier = threading.Barrier(2)
    found: dict[int, int | None] = {}

    def work(times: int) -> None:
        run = linear(backward=True)
        token = counter.enter(times)
        for _ in range(times):
            barrier.wait(10)
            run()
        found[times] = counter.leave(token)
        assert modes_left() == 0

    threads = [threading.Thread(target=work, args=(20,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {20: 20 * 3 * LINEAR}


def test_fifty_tasks_that_take_turns_keep_their_counts_apart() -> None:
    counter = FlopCounter()
    found: dict[int, tuple[int | None, int | None]] = {}

    async def work(number: int) -> None:
        run = linear(backward=True)
        outer = counter.enter(number)
        await asyncio.sleep(0)
        run()
        for _ in range(number % 7):
            inner = counter.enter("inner")
            await asyncio.sleep(0.0001 * (number % 3))
            run()
            assert counter.leave(inner) == 3 * LINEAR
            await asyncio.sleep(0)
        found[number] = (counter.leave(outer), 3 * LINEAR * (1 + number % 7))

    async def bystander() -> None:
        run = linear(backward=False)
        for _ in range(20):
            run()
            await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.gather(bystander(), *(work(number) for number in range(50)))

    asyncio.run(main())
    assert len(found) == 50
    assert all(got == wanted for got, wanted in found.values())
    assert modes_left() == 0


def test_tasks_that_a_block_starts_belong_to_it_while_it_is_open() -> None:
    counter, run = FlopCounter(), linear(backward=False)

    async def work() -> None:
        await asyncio.sleep(0)
        run()

    async def main() -> int | None:
        token = counter.enter("outer")
        await asyncio.gather(work(), work())
        late = asyncio.create_task(work())
        found = counter.leave(token)
        await late
        return found

    assert asyncio.run(main()) == 2 * LINEAR


def test_an_exception_in_a_block_leaves_nothing_behind() -> None:
    counter, run = FlopCounter(), linear(backward=False)

    def fails() -> None:
        run()
        torch.ones(2, 3) @ torch.ones(2, 3)

    token = counter.enter("fails")
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        fails()
    assert counter.leave(token) == LINEAR
    assert modes_left() == 0


def test_a_formula_that_fails_makes_the_count_unknown_and_not_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from torch.utils import flop_counter

    def broken(*_: Any, **__: Any) -> int:
        raise ZeroDivisionError("no")

    monkeypatch.setitem(flop_counter.flop_registry, torch.ops.aten.addmm, broken)
    counter, run = FlopCounter(), linear(backward=False)
    outer = counter.enter("outer")
    assert counted(run, counter) is None
    assert "aten.addmm" in counter.reason("run")
    assert counter.leave(outer) is None
    assert counter.reason("other") == ""


def test_a_block_that_ends_on_another_thread_has_no_count() -> None:
    counter, run = FlopCounter(), linear(backward=False)
    token = counter.enter("crosses")
    found: list[int | None] = []
    thread = threading.Thread(target=lambda: found.append(counter.leave(token)))
    thread.start()
    thread.join()
    assert found == [None]
    assert counter.reason() == flops.OTHER_THREAD
    run()
    assert counted(run, counter) == LINEAR, "the next block of this thread counts again"
    assert modes_left() == 0


def test_modes_of_the_program_are_never_taken_off() -> None:
    class Theirs(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return func(*args, **(kwargs or {}))

    counter, run, theirs = FlopCounter(), linear(backward=False), Theirs()
    token = counter.enter("outer")
    theirs.__enter__()
    run()
    assert counter.leave(token) == LINEAR
    assert torch._C._get_dispatch_stack_at(modes_left() - 1) is theirs
    theirs.__exit__(None, None, None)
    run()
    assert counted(run, counter) == LINEAR
    assert modes_left() == 0


class Deeper(torch.autograd.Function):
    """Calls backward within backward: 60 levels down torch goes on in a thread of its own."""

    threads: set[int]

    @staticmethod
    def forward(ctx: Any, x: Any, depth: int) -> Any:
        ctx.depth = depth
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        Deeper.threads.add(threading.get_ident())
        with torch.enable_grad():
            x = torch.ones(4, 16, requires_grad=True)
            out = Deeper.apply(x, ctx.depth - 1) if ctx.depth else x
            (out @ torch.ones(16, 8)).sum().backward()
        return grad, None


def test_threads_of_autograd_count_for_the_thread_they_work_for() -> None:
    Deeper.threads = set()
    x = torch.ones(4, 16, requires_grad=True)
    found = counted(lambda: Deeper.apply(x, 70).sum().backward())
    assert len(Deeper.threads) > 1, "torch kept to one thread: nothing was tested"
    assert found == 71 * 2 * LINEAR  # each level: a product, and one for its input's gradient
    assert modes_left() == 0


def test_operators_that_count_nothing_are_named() -> None:
    counter = FlopCounter()
    x = torch.randn(4)
    counted(x.exp, counter)
    assert "aten.exp" in counter.without_formula()


def test_compiled_functions_stay_compiled_and_their_library_calls_count() -> None:
    torch._dynamo.reset()
    graphs: list[Any] = []

    def backend(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    @torch.compile(backend=backend)
    def product(x: Any) -> Any:
        return (x @ x).relu()

    counter, x = FlopCounter(), torch.randn(8, 8)
    first = counted(lambda: product(x), counter)
    second = counted(lambda: product(x), counter)
    product(x)
    assert len(graphs) == 1, "compiled once, within the first block"
    assert first == second == 2 * 8**3
    assert flops.COMPILED in counter.notes()


def test_what_hides_inside_an_operator_makes_the_count_unknown() -> None:
    counter, x = FlopCounter(), torch.randn(8, 8)
    yes = torch.tensor(True)
    found = counted(lambda: torch.cond(yes, lambda a: a @ a, lambda a: a + a, (x,)), counter)
    assert found is None
    assert "cond" in counter.reason()


@pytest.mark.parametrize(
    ("layer", "op"),
    [
        (torch.nn.LSTM(8, 16), r"rnn|lstm"),
        (torch.nn.TransformerEncoderLayer(8, 2, 8, batch_first=True).eval(), "transformer"),
    ],
)
def test_heavy_operators_that_count_nothing_are_told(layer: Any, op: str) -> None:
    counter, x = FlopCounter(), torch.randn(5, 2, 8)
    with torch.no_grad():
        counted(lambda: layer(x), counter)
        counted(x.exp, counter)
    (note,) = (note for note in counter.notes() if note != flops.COMPILED)
    assert re.search(op, note)
    assert "exp" not in note


def encoder() -> Run:
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    x = torch.randn(2, 5, 16)
    return lambda: layer(x).sum().backward()


def checkpointed() -> Run:
    layer, x = torch.nn.Linear(16, 8), torch.randn(4, 16, requires_grad=True)
    return lambda: checkpoint(layer, x, use_reentrant=False).sum().backward()


def mapped() -> Run:
    x = torch.randn(3, 4, 5)
    return lambda: torch.func.vmap(lambda one: one.T @ one)(x)


def einsum_and_friends() -> Run:
    a, b = torch.randn(3, 4, 5, requires_grad=True), torch.randn(3, 5, 6)
    return lambda: torch.einsum("bij,bjk->bik", a, b).softmax(-1).matmul(b.mT).sum().backward()


def second_derivative() -> Run:
    x = torch.randn(4, 4, requires_grad=True)

    def run() -> None:
        (first,) = torch.autograd.grad((x @ x).pow(2).sum(), x, create_graph=True)
        first.sum().backward()

    return run


def bfloat16() -> Run:
    layer, x = torch.nn.Conv2d(3, 6, 3), torch.randn(2, 3, 8, 8)

    def run() -> None:
        with torch.autocast("cpu", torch.bfloat16):
            layer(x).sum().backward()

    return run


@pytest.mark.parametrize(
    "make",
    [encoder, checkpointed, mapped, einsum_and_friends, second_derivative, bfloat16],
)
def test_whatever_runs_the_count_is_torchs(make: Callable[[], Run]) -> None:
    run = make()
    found = counted(run)
    assert found == counted_by_torch(run)
    assert found


def test_a_forked_child_is_not_watched_and_its_parent_goes_on() -> None:
    counter, run = FlopCounter(), linear(backward=False)
    token = counter.enter("forks")
    run()
    child = os.fork()
    if child == 0:
        fine = modes_left() == 0 and counter.leave(token) is None
        os._exit(0 if fine and counter.reason() == flops.FORKED else 1)
    _, status = os.waitpid(child, 0)
    run()
    assert counter.leave(token) == 2 * LINEAR
    assert os.waitstatus_to_exitcode(status) == 0


WITHOUT_TORCH = """
import sys
from stepscope.collect.flops import FlopCounter
counter = FlopCounter()
token = counter.enter("plain")
print(counter.leave(token), counter.reason(), "torch" in sys.modules, sep="|")
token = counter.enter("imports")
import torch
print(counter.leave(token), counter.reason(), sep="|")
"""


TORCH_WITHOUT_MODES = """
import sys
import torch
sys.modules["torch.utils.flop_counter"] = None  # as in a torch that has none
from stepscope.collect.flops import FlopCounter
counter = FlopCounter()
for _ in range(2):
    token = counter.enter("block")
    torch.ones(2, 2) @ torch.ones(2, 2)
    print(counter.leave(token), counter.reason(), sep="|")
"""


def test_a_torch_that_cannot_be_watched_is_no_error() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TORCH_WITHOUT_MODES], capture_output=True, text=True, check=True
    )
    first, second = done.stdout.splitlines()
    assert first.startswith("None|torch's operators cannot be watched: ")
    assert first == second


def test_without_torch_there_is_no_count_and_it_is_not_imported() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        f"None|{flops.NO_TORCH}|False",
        f"None|{flops.IMPORTED_WITHIN}",
    ]


def test_a_token_from_elsewhere_is_no_error() -> None:
    assert FlopCounter().leave("not a token") is None
