from __future__ import annotations

import itertools
import json
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import _get_current_dispatch_mode
from torch.utils.flop_counter import FlopCounterMode

from stepscope.collect.op_log import OpLogCollector, Seen
from stepscope.collect.replay import replay
from stepscope.collect.replay_values import Changed, make
from stepscope.model import names
from stepscope.record.recorder import Recorder
from tests.unit.collect.conftest import Read


def no() -> bool:
    return False


def yes() -> bool:
    return True


class Run:
    """A model that is trained under the log."""

    def __init__(self, recorder: Recorder, model: nn.Module, data: torch.Tensor) -> None:
        self.model, self.data = model, data
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        self.log = OpLogCollector(yes, no, lambda: [model])
        self.log.start(recorder)
        self.log._is_enough = lambda budget_ns: True  # type: ignore[method-assign]
        self.log._start_ns = -(10**12)  # it has run for long

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.optimizer.zero_grad()
            self.model(self.data).square().mean().backward()
            self.optimizer.step()
            self.log.after_step(self.optimizer)


def logged(read: Read) -> list[tuple[dict[str, Any], int]]:
    return [(json.loads(row.text), row.arg) for row in read(names.OP_LOGGED)]


def test_one_step_is_logged_forward_backward_and_optimizer(recorder: Recorder, read: Read) -> None:
    run = Run(recorder, nn.Linear(8, 4), torch.randn(16, 8))
    run.steps(10)
    found = {spec.get("op"): count for spec, count in logged(read)}
    assert found["aten::addmm"] == 1
    assert found["aten::mm"] >= 1, "the gradient of the weights"
    assert _get_current_dispatch_mode() is None
    before = logged(read)
    run.steps(10)
    assert logged(read) == before, "once is enough"


def test_what_is_called_with_the_same_is_counted_and_views_are_not_described(
    recorder: Recorder, read: Read
) -> None:
    seen = Seen(torch)
    x = torch.ones(4, 4)
    for _ in range(3):
        seen.note(torch.ops.aten.relu.default, (x,), {})
    seen.note(torch.ops.aten.t.default, (x,), {})
    (relu, three), (others, one) = seen.told()
    assert (json.loads(relu)["op"], three) == ("aten::relu", 3)
    assert (others, one) == ("{}", 1)


def test_subnormal_values_are_counted_over_some_calls() -> None:
    seen = Seen(torch)
    tiny, usual = torch.full((1000,), 1e-40), torch.ones(1000)
    for x in (usual, tiny):
        seen.note(torch.ops.aten.sqrt.default, (x,), {})
    (text, _), _ = seen.told()
    assert json.loads(text)["args"][0]["subnormal"] == pytest.approx(0.5)


def test_a_mask_selects_as_much_when_it_is_run_again() -> None:
    mask = torch.zeros(1000, dtype=torch.bool)
    mask[:250] = True
    seen = Seen(torch)
    seen.note(torch.ops.aten.nonzero.default, (mask,), {})
    (text, _), *_ = seen.told()
    spec = json.loads(text)
    assert spec["args"][0]["true"] == 0.25
    torch.manual_seed(0)
    made = make(torch, spec["args"][0], Changed())
    assert 200 < int(made.count_nonzero()) < 300


def test_what_depends_on_integers_that_are_not_known_counts_as_not_run() -> None:
    seen = Seen(torch)
    seen.note(torch.ops.aten.nonzero.default, (torch.arange(1000),), {})
    seen.note(torch.ops.aten.relu.default, (torch.ones(1000),), {})
    ops = [[json.loads(text), count] for text, count in seen.told()]
    (found,) = replay({"ops": ops, "wanted": ["nothing"], "complete": True})
    assert (found["nothing"]["calls"], found["nothing"]["failed"]) == (1, 1)


@pytest.mark.filterwarnings("ignore:Sparse")
def test_sparse_tensors_are_counted_and_end_no_log() -> None:
    seen = Seen(torch)
    graph = torch.eye(3).to_sparse()
    seen.note(torch.ops.aten.mm.default, (graph, torch.eye(3)), {})
    seen.note(torch.ops.aten.mm.default, (graph.to_sparse_csr(), torch.eye(3)), {})
    seen.note(torch.ops.aten.relu.default, (torch.ones(3),), {})
    assert seen.error is None
    assert [count for _, count in seen.told()] == [1, 2]


def test_what_an_operator_is_given_is_not_asked_to_show_itself() -> None:
    class Strange:
        def __repr__(self) -> str:
            raise AssertionError

    seen = Seen(torch)
    seen.note(torch.ops.aten.relu.default, (torch.ones(2), Strange()), {})
    assert seen.error is None
    assert seen.told() == [("{}", 1)]


def test_when_the_budget_is_spent_the_rest_is_only_counted() -> None:
    seen = Seen(torch, budget_ns=0)
    for size in (1, 2, 3):
        seen.note(torch.ops.aten.relu.default, (torch.ones(size),), {})
    (_, described), (_, views), (rest, after) = seen.told()
    assert (described, views, after) == (1, 0, 2)
    assert json.loads(rest) == {"partial": True}


def test_a_log_that_the_program_is_in_the_way_of_leaves_it_alone(
    recorder: Recorder, read: Read
) -> None:
    run = Run(recorder, nn.Linear(8, 4), torch.randn(16, 8))
    run.steps(6)  # the log has begun
    with FlopCounterMode(display=False) as counter:
        run.steps(1)  # and would end here, below a mode of the program's
        assert isinstance(_get_current_dispatch_mode(), type(counter.mode))
    run.steps(1)
    assert _get_current_dispatch_mode() is None
    assert logged(read) == []
    assert counter.get_total_flops() > 0


def test_the_results_of_the_program_are_the_same_to_the_bit(recorder: Recorder) -> None:
    def train(watched: bool) -> list[torch.Tensor]:
        torch.manual_seed(3)
        model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.Dropout(0.5))
        run = Run(recorder, model, torch.randn(4, 2, 8, 8))
        if not watched:
            run.log.stop()
        run.steps(12)
        return [parameter.detach().clone() for parameter in model.parameters()]

    for bare, watched in zip(train(False), train(True), strict=True):
        assert torch.equal(bare, watched)


def request(recorder: Recorder, read: Read, model: nn.Module, data: torch.Tensor) -> Any:
    Run(recorder, model, data).steps(8)
    return {"ops": logged(read), "threads": 1, "complete": True}


def measured(asked: dict[str, Any]) -> dict[str, Any]:
    return {name: figures for one in replay(asked) for name, figures in one.items()}


def relu(elements: int) -> dict[str, Any]:
    tensor = {"shape": [elements], "stride": [1], "dtype": "float32", "device": "cpu"}
    return {"op": "aten::relu", "overload": "", "args": [tensor], "kwargs": {}}


def test_the_largest_operators_come_first_and_those_without_time_count_as_not_run() -> None:
    ops = [(relu(10), 5), (relu(8_000_000), 1), (relu(20), 7)]
    asked = {"ops": ops, "wanted": ["only_work"], "threads": 1, "until_s": 2.0}
    seconds = itertools.count()  # the clock is read before the alternative and each operator
    (one,) = replay(asked, lambda: next(seconds))
    found = one["only_work"]
    assert (found["ops"], found["calls"], found["failed"]) == (1, 1, 12)


def test_the_whole_is_not_told_where_a_part_of_it_was_not_measured() -> None:
    late = {"ops": [(relu(10), 5)], "threads": 1, "until_s": 0.0}
    assert measured(late | {"wanted": ["nothing", "only_work", "fused_optimizer"]}) == {}
    assert set(measured(late | {"wanted": ["nothing"], "complete": True})) == {"nothing"}


def test_operators_are_run_again_in_float32(recorder: Recorder, read: Read) -> None:
    asked = request(recorder, read, nn.Linear(256, 256).double(), torch.randn(256, 256).double())
    found = measured(asked | {"wanted": ["float32", "no such thing"]})
    assert list(found) == ["float32"]
    assert 0 < found["float32"]["then_ms"] < found["float32"]["now_ms"]
    assert found["float32"]["ops"] >= 3


def test_operators_are_run_again_in_the_other_layout_and_without_copies(
    recorder: Recorder, read: Read
) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(8, 8, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.conv(x).permute(0, 2, 3, 1).contiguous()

    asked = request(recorder, read, Net(), torch.randn(4, 8, 16, 16))
    found = measured(asked | {"wanted": ["channels_last"]})["channels_last"]
    assert found["ops"] >= 3, "convolution, its backward, and the copy"
    assert found["now_ms"] > 0


def test_subnormal_values_make_a_root_slower_than_usual_ones(
    recorder: Recorder, read: Read
) -> None:
    class Root(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.scale * torch.sqrt(x)

    asked = request(recorder, read, Root(), torch.full((100_000,), 1e-40))
    found = measured(asked | {"wanted": ["no_subnormals", "flush_denormals"]})
    assert found["no_subnormals"]["then_ms"] < found["no_subnormals"]["now_ms"]
    assert set(found) == {"no_subnormals", "flush_denormals"}


def test_only_the_work_of_tiny_operators_is_little(recorder: Recorder, read: Read) -> None:
    model = nn.Sequential(*(nn.Linear(2, 2) for _ in range(8)))
    asked = request(recorder, read, model, torch.randn(1, 2))
    found = measured(asked | {"wanted": ["only_work"]})["only_work"]
    assert found["then_ms"] < found["now_ms"]


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"op": "os::system", "overload": "", "args": ["true"], "kwargs": {}},
        {"op": "aten::no_such_operator", "overload": "", "args": [], "kwargs": {}},
        {"op": "aten::relu", "overload": "", "args": [{"shape": [1 << 40]}], "kwargs": {}},
        {"op": "aten::relu", "overload": "", "args": [{"what": 1}], "kwargs": {}},
        {"op": "aten::relu", "overload": "", "args": [], "kwargs": {}},
    ],
)
def test_what_cannot_be_run_again_is_passed_over(spec: dict[str, Any]) -> None:
    assert (
        measured({"ops": [(spec, 1)], "wanted": ["only_work"], "threads": 1, "complete": True})
        == {}
    )


def test_it_is_a_program_that_reads_a_request_and_writes_what_it_found() -> None:
    tensor = {"shape": [4], "stride": [1], "dtype": "float32", "device": "cpu"}
    spec = {"op": "aten::relu", "overload": "", "args": [tensor], "kwargs": {}}
    asked = {"ops": [(spec, 2)], "wanted": ["only_work"], "threads": 1, "complete": True}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "stepscope.collect.replay"],
        input=json.dumps(asked), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout)["only_work"]["calls"] == 2


def test_operators_that_make_a_batch_are_no_computation(recorder: Recorder, read: Read) -> None:
    run = Run(recorder, nn.Linear(8, 4), torch.randn(16, 8))
    run.steps(6)  # the log has begun
    token = recorder.begin(recorder.intern(names.INPUT_NEXT))
    torch.arange(12).flip(0)
    recorder.end(token)
    run.steps(1)
    assert "aten::flip" not in {spec.get("op") for spec, _ in logged(read)}
