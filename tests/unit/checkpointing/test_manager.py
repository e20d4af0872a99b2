"""Applied, switched and removed, in one process and in several, compiled and not."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import nn

from stepscope.checkpointing.manager import CheckpointManager
from stepscope.errors import UsageError
from stepscope.model.checkpoint_plan import ALL, CHEAP, CheckpointPlan, Segment
from stepscope.record.core import core
from tests.unit.checkpointing.models import (
    WIDTH,
    Conv,
    Nested,
    Step,
    Transformer,
    assert_same,
    rows,
    step,
)


class Deep(nn.Module):
    """Plain products, in a row."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(
            *(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(4))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.blocks(x)


def images() -> torch.Tensor:
    return torch.randn(2, 3, 6, 6)


PLAN = CheckpointPlan((Segment("blocks", CHEAP, 0, 1), Segment("blocks.3")), budget_bytes=1000)


def is_wrapped(model: nn.Module) -> list[str]:
    return [name for name, module in model.named_modules() if "forward" in module.__dict__]


def test_the_plan_is_what_is_applied_now() -> None:
    manager = CheckpointManager(Conv())
    assert manager.plan == CheckpointPlan(())
    assert manager.apply(PLAN).plan == PLAN
    manager.switch(False)
    assert manager.plan == PLAN
    manager.remove()
    assert manager.plan == CheckpointPlan(())


def test_a_plan_takes_the_place_of_the_one_before() -> None:
    model = Conv()
    manager = CheckpointManager(model).apply(PLAN)
    assert is_wrapped(model) == ["blocks", "blocks.3"]
    manager.apply(CheckpointPlan((Segment("blocks.1"),)))
    assert is_wrapped(model) == ["blocks.1"]


def test_choosing_more_adds_to_the_plan_in_the_models_order() -> None:
    manager = CheckpointManager(Transformer()).checkpoint("head").checkpoint("blocks.*", every=2)
    labels = [segment.label for segment in manager.plan.segments]
    assert labels == ["blocks.0", "blocks.2", "head"]


def test_a_plan_that_does_not_fit_changes_nothing() -> None:
    model = Conv()
    manager = CheckpointManager(model).apply(PLAN)
    for wrong in (Segment("nobody"), Segment("blocks.0", "some")):
        with pytest.raises(UsageError):
            manager.apply(CheckpointPlan((Segment("blocks.2"), wrong)))
        assert manager.plan == PLAN


def test_a_plan_goes_to_a_file_and_comes_from_it(tmp_path: Path) -> None:
    CheckpointManager(Conv()).apply(PLAN).save_file(tmp_path / "plan.json")

    manager = CheckpointManager(Conv()).apply_file(str(tmp_path / "plan.json"))

    assert manager.plan == PLAN


def test_after_removing_the_model_is_as_it_was() -> None:
    model = Nested()
    before = {name: dict(module.__dict__) for name, module in model.named_modules()}
    with CheckpointManager(model).checkpoint("groups.*", "groups.*.*"):
        step(model, rows())
        assert len(is_wrapped(model)) == 6
    assert is_wrapped(model) == []
    for name, module in model.named_modules():
        assert module.__dict__.keys() == before[name].keys()


def test_it_is_removed_when_the_block_ends_with_an_error() -> None:
    model = Conv()
    with pytest.raises(KeyError), CheckpointManager(model).apply(PLAN):
        raise KeyError
    assert is_wrapped(model) == []


def test_a_graph_made_before_removing_still_has_its_backward() -> None:
    model, x = Nested(), rows()
    expected = step(model, x)
    model.zero_grad()
    torch.manual_seed(0)
    with CheckpointManager(model).checkpoint("groups.*"):
        loss = model(x).square().sum()
    loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        assert torch.equal(parameter.grad, expected.gradients[name])


def test_it_can_be_switched_between_steps() -> None:
    model, x = Nested(), rows()
    seen: list[int] = []
    model.groups[0][0].up.register_forward_hook(lambda *_: seen.append(1))
    manager = CheckpointManager(model).checkpoint("groups.*")
    calls, steps = [], []
    for on in (True, False, False, True):
        manager.switch(on)
        assert manager.is_on is on
        seen.clear()
        steps.append(step(model, x))
        calls.append(len(seen))
    assert calls == [2, 1, 1, 2]
    for one in steps[1:]:
        assert_same(steps[0], one)


def test_without_a_model_there_is_nothing_to_checkpoint() -> None:
    with pytest.raises(UsageError, match="has no model"):
        CheckpointManager().checkpoint("a")


def test_a_model_is_a_module() -> None:
    with pytest.raises(UsageError, match=r"torch\.nn\.Module, not list"):
        CheckpointManager([])


# With its debugging backend torch itself refuses a checkpoint that changes buffers.
Made = tuple[Callable[[], nn.Module], Callable[[], torch.Tensor]]
COMPILED: dict[str, Made] = {"eager": (Deep, rows), "aot_eager": (Conv, images)}


@pytest.mark.filterwarnings("ignore")  # torch.compile warns of itself
@pytest.mark.parametrize("backend", COMPILED)
def test_a_compiled_model_has_the_same_gradients(backend: str) -> None:
    torch._dynamo.reset()
    torch.manual_seed(1)
    make, given = COMPILED[backend]
    model, x = make(), given()
    states = {name: one.clone() for name, one in model.state_dict().items()}
    expected = step(model, x)
    graphs: list[list[str]] = []

    def counted(graph: Any, example: Any) -> Any:
        graphs.append([str(node.target) for node in graph.graph.nodes])
        return torch._dynamo.lookup_backend(backend)(graph, example)

    compiled = torch.compile(model, backend=counted, fullgraph=True)
    for recompute in (ALL, CHEAP):
        model.load_state_dict(states)
        plan = CheckpointPlan((Segment("blocks", recompute, 0, 1), Segment("blocks.3", recompute)))
        with CheckpointManager(compiled).apply(plan):
            assert_same(_plainly_named(step(compiled, x)), expected)
        # torch's own operator for a checkpoint, twice, in one graph.
        assert sum("activation_checkpoint" in target for target in graphs[-1]) == 2
    torch._dynamo.reset()


def _plainly_named(found: Step) -> Step:
    def plain(named: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {name.removeprefix("_orig_mod."): one for name, one in named.items()}

    return found._replace(gradients=plain(found.gradients), buffers=plain(found.buffers))


RANK = """
    import os, sys, torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from stepscope.checkpointing.manager import CheckpointManager
    from tests.unit.checkpointing.models import Conv, assert_same, step

    def train(recompute):
        torch.manual_seed(1)
        model = DistributedDataParallel(Conv())
        torch.manual_seed(10 + dist.get_rank())
        given = torch.randn(2, 3, 6, 6)
        manager = CheckpointManager(model)
        if recompute:
            manager.checkpoint("blocks.*", recompute=recompute)
        return [step(model, given, seed=seed) for seed in (3, 4)]

    def work(rank, store):
        torch.set_num_threads(1)
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
        expected = train(None)
        for recompute in ("all", "cheap"):
            for one, other in zip(train(recompute), expected, strict=True):
                assert_same(one, other)
        dist.barrier()
        dist.destroy_process_group()

    child = os.fork()  # before torch has started any thread
    work(0 if child else 1, sys.argv[1])
    if not child:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    print("same")
"""


def test_distributed_data_parallel_has_the_same_gradients(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(RANK), str(tmp_path / "store")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == "same\n", done.stderr


MEMORY = """
    import gc, json, torch
    from torch import nn
    from stepscope.checkpointing.engine import RecomputationEngine
    from stepscope.checkpointing.manager import CheckpointManager
    from stepscope.record.core import core

    heap = core.TensorHeap(*(core.intern(f"memory.{at}") for at in range(6)))
    assert heap.watch("libc10.so", True) > 0
    heap.book(True)
    width, rows, depth = 64, 1024, 6
    def block():
        return nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))
    model, x = nn.Sequential(*(block() for _ in range(depth))), torch.randn(rows, width)

    def peak(recompute, cache_bytes=0):
        model.zero_grad(set_to_none=True)
        gc.collect()
        _, before = heap.end_step()
        with CheckpointManager(model, RecomputationEngine(cache_bytes)) as manager:
            if recompute:
                manager.checkpoint("*", recompute=recompute)
            model(x).sum().backward()
        most, after = heap.end_step()
        gradients = sum(4 * one.numel() for one in model.parameters())
        assert after - before < 1.1 * gradients, "something is still held"
        return most - before

    peak(None)
    kinds = {"plain": (None,), "all": ("all",), "cheap": ("cheap",), "cached": ("all", 1 << 30)}
    print(json.dumps({name: peak(*kind) for name, kind in kinds.items()}))
"""


def test_the_peak_of_memory_falls_by_what_is_not_kept() -> None:
    if core.TensorHeap is None:
        pytest.skip("this core cannot see tensors")
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(MEMORY)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    peak = json.loads(done.stdout)
    result_bytes = 1024 * 64 * 4
    # A block keeps what gelu and layer norm were given, and its result is what the next one was
    # given. Most is live in the backward of the last block, which is computed again by then: five
    # blocks keep two results less, or, where that of the product is kept, one.
    assert peak["plain"] - peak["all"] == pytest.approx(5 * 2 * result_bytes, rel=0.02)
    assert peak["plain"] - peak["cheap"] == pytest.approx(5 * 1 * result_bytes, rel=0.02)
    # What was recomputed goes with its part of the graph: no heap of old entries.
    assert peak["cached"] == pytest.approx(peak["all"], rel=0.02)
