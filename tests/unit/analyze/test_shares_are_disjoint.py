"""Whatever was measured, the shares of findings are parts of one loop: they add up to 1 at most."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.analyze.resources import ProcessUse, Resources
from stepscope.model import traits
from stepscope.model.details import OTHER_THREADS, Details, Pipeline
from stepscope.model.phases import Phase
from tests.unit.analyze.made_evidence import dataset, found, line, node, stacks, stage, trained

parts = st.floats(0.0, 1.0)
times = st.sampled_from([0.0, 1.0, 20.0, 300.0])
cores = st.one_of(st.none(), st.floats(0.0, 4.0))


@st.composite
def uses(draw: st.DrawFn) -> ProcessUse:
    return ProcessUse(
        1,
        cpu_cores=draw(cores),
        run_delay_cores=draw(cores),
        main_delay_cores=draw(cores),
        read_bytes_per_s=draw(st.sampled_from([None, 0.0, 1e7])),
        write_bytes_per_s=draw(st.sampled_from([None, 0.0, 1e8])),
        major_faults_per_s=draw(st.sampled_from([None, 0.0, 1e4])),
    )


@st.composite
def resources(draw: st.DrawFn) -> Resources:
    return Resources(
        cpu_count=draw(st.sampled_from([None, 1.0, 2.0, 8.0])),
        cpu_busy_share=draw(st.one_of(st.none(), parts)),
        program=draw(uses()),
        children=draw(uses()),
        swap_in_pages_per_s=draw(st.sampled_from([None, 1e4])),
        pressure_memory_share=draw(st.one_of(st.none(), parts)),
    )


@st.composite
def details(draw: st.DrawFn) -> Details:
    def tried() -> dict[str, object]:
        now = draw(st.floats(1.0, 400.0))
        return {"now_ms": now, "then_ms": now * draw(parts), "ops": 3, "calls": 30}

    alternatives = ("float32", "no_subnormals", "flush_denormals", "channels_last", "bfloat16",
                    "only_work", "fused_optimizer", "nothing")  # fmt: skip
    known: dict[str, object] = {
        traits.DTYPES: draw(st.sampled_from([{}, {"float64": 1.0}, {"float32": 1.0}])),
        traits.ALTERNATIVES: {name: tried() for name in alternatives if draw(st.booleans())},
        traits.CONV_LAYOUT: {"convolutions": 3, "channels_last": 0},
        traits.CPU_FEATURES: ["avx512_bf16"],
        traits.WORLD_SIZE: draw(st.sampled_from([1, 2])),
    }
    log = node("log", "logging/__init__.py", 1000.0 * draw(parts))
    seen = (
        stacks(Phase.PYTHON_BETWEEN, line("a.py", 1, "f", 1.0), flame=log),
        stacks(Phase.FORWARD, line("a.py", 2, "g", draw(parts))),
        stacks(OTHER_THREADS, line("b.py", 3, "h", 1.0), where="thread"),
    )
    made = dataset(draw(times), draw(times))
    stages = (made, stage("collate", draw(times)), stage("serialise", draw(times), "feeder"))
    return Details(
        pipeline=draw(st.one_of(st.none(), st.just(Pipeline(draw(st.integers(0, 3)), 50, stages)))),
        stacks=seen if draw(st.booleans()) else (),
        traits=known,
    )


@settings(max_examples=150, deadline=None)
@given(
    loop=st.builds(
        trained, st.integers(0, 3), wait=times, gap=times,
        optimizer_ms=st.sampled_from([5.0, 50.0]), ran=parts, gap_ran=parts, steps=st.just(12),
    ),
    seen=details(),
    used=resources(),
)  # fmt: skip
def test_shares_add_up_to_one_at_most(loop, seen, used) -> None:  # type: ignore[no-untyped-def]
    shares = {kind: one.share for kind, one in found(loop, seen, used).items()}
    assert all(share >= 0.0 for share in shares.values())
    assert sum(shares.values()) <= 1.0 + 1e-9, shares


def test_computing_is_not_counted_again_where_another_thread_holds_the_lock() -> None:
    program = ProcessUse(1, cpu_cores=1.0, run_delay_cores=0.0, main_delay_cores=0.0)
    used = Resources(cpu_count=2.0, cpu_busy_share=0.5, program=program)
    kinds = found(trained(ran=0.5), None, used)
    assert kinds["gil"].share == pytest.approx(0.5, abs=0.01)
    assert kinds["compute"].share == pytest.approx(0.5, abs=0.01)


def test_workers_wait_for_a_cpu_only_while_the_training_thread_does_not() -> None:
    # The thread never ran: all 101 ms of a step it waited itself, 1 of them for data.
    program = ProcessUse(1, cpu_cores=0.0, run_delay_cores=1.0)
    children = ProcessUse(1, cpu_cores=1.0, run_delay_cores=1.0)
    used = Resources(cpu_count=1.0, program=program, children=children)
    kinds = found(trained(1, wait=1.0, ran=0.0, steps=12), None, used)
    assert kinds["oversubscription"].share == pytest.approx(1.0)
