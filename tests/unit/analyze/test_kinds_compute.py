from __future__ import annotations

from dataclasses import replace

import pytest

from stepscope.analyze.alternatives import worth_a_try
from stepscope.analyze.evidence import Evidence
from stepscope.analyze.findings import findings
from stepscope.analyze.resources import Resources
from stepscope.analyze.whole import Whole
from stepscope.model import traits
from stepscope.model.details import Details, HotLine, LayerTime
from stepscope.model.finding import Location
from stepscope.model.phases import Phase
from tests.unit.analyze.made_evidence import found, op, stacks, trained

# Steps of 101 ms, 100 of them computation: 40 forward, 55 backward, 5 optimizer.
HEALTHY_OPS = (op("aten::addmm", 50.0), op("aten::mm", 40.0))
HEALTHY_TRAITS = {
    traits.DTYPES: {"float32": 1.0},
    traits.AUTOCAST: None,
    traits.OPTIMIZERS: [{"class": "AdamW", "fused": True, "foreach": None, "parameters": 20}],
    traits.CONV_LAYOUT: {"convolutions": 4, "channels_last": 4, "dims": 4},
    traits.CPU_FEATURES: ["avx2"],
}


def conv(path: str, ms: float) -> LayerTime:
    return LayerTime(path, "Conv2d", 1.0, ms, ms, ms / 2, ms / 2, None)


def with_traits(**more: object) -> Details:
    return Details(ops=HEALTHY_OPS, traits=HEALTHY_TRAITS | more)


def test_healthy_computation_is_all_that_is_found_and_says_where_it_goes() -> None:
    details = replace(with_traits(), layers=(conv("stem", 30.0), conv("head", 60.0)))
    kinds = found(trained(), details)
    assert list(kinds) == ["compute"]
    assert (kinds["compute"].location.layer, kinds["compute"].location.op) == (
        "head",
        "aten::addmm",
    )
    assert kinds["compute"].missing == ()


def run_again(**alternatives: tuple[float, float]) -> dict[str, object]:
    """Milliseconds of a step as it is and as it could be."""
    return {
        traits.ALTERNATIVES: {
            name: {"now_ms": now, "then_ms": then, "ops": 3, "calls": 30, "dearest": "aten::mm"}
            for name, (now, then) in alternatives.items()
        }
    }


def test_double_precision_costs_what_single_precision_was_measured_to_save() -> None:
    doubled: dict[str, object] = {traits.DTYPES: {"float64": 1.0}}
    kinds = found(trained(), with_traits(**doubled, **run_again(float32=(80.0, 45.0))))
    assert next(iter(kinds)) == "precision"
    assert kinds["precision"].share == pytest.approx(35 / 101, abs=0.005)
    assert kinds["precision"].missing == ()


def test_half_the_width_is_not_believed_to_save_more_than_half() -> None:
    tried = run_again(float32=(100.0, 3.0), nothing=(100.0, 0.0))
    kinds = found(trained(), with_traits(dtypes={"float64": 1.0}, **tried))
    assert kinds["precision"].max_speedup == pytest.approx(101 / 46, abs=0.02)


def test_what_was_run_again_is_told_as_a_part_of_the_step() -> None:
    """Operators alone may take longer than in the step: 189 ms of one that takes 101."""
    tried = run_again(float32=(189.0, 154.0), nothing=(189.0, 0.0))
    kinds = found(trained(), with_traits(dtypes={"float64": 1.0}, **tried))
    # 100 ms of the step are computed: 154 / 189 of them would be left.
    assert "81 ms instead of 100 ms of each step" in kinds["precision"].evidence[1]


def test_the_part_of_the_operators_that_narrows_is_a_part_of_the_computation() -> None:
    tried = run_again(float32=(40.0, 25.0), nothing=(50.0, 0.0))
    kinds = found(trained(), with_traits(dtypes={"float64": 1.0}, **tried))
    assert kinds["precision"].share == pytest.approx(0.8 * 0.375 * 100 / 101, abs=0.005)


def test_double_precision_that_was_not_tried_costs_at_most_half_of_its_computation() -> None:
    kinds = found(trained(), with_traits(dtypes={"float64": 0.5}))
    assert kinds["precision"].share == pytest.approx(0.25 * 100 / 101, abs=0.005)
    assert kinds["precision"].missing
    assert kinds["precision"].confidence < 0.6


def test_what_precision_costs_is_not_counted_again_as_model_compute() -> None:
    details = with_traits(dtypes={"float64": 1.0}, **run_again(float32=(80.0, 30.0)))
    kinds = found(trained(), details)
    shares = kinds["precision"].share, kinds["compute"].share
    assert sum(shares) == pytest.approx(100 / 101, abs=0.005)


def test_double_precision_that_costs_nothing_is_no_finding() -> None:
    details = with_traits(dtypes={"float64": 1.0}, **run_again(float32=(80.0, 81.0)))
    assert "precision" not in found(trained(), details)


CAPABLE = {traits.CPU_FEATURES: ["avx512f", "amx_bf16"]}


def test_single_precision_is_in_the_way_where_bfloat16_would_save_much() -> None:
    kinds = found(trained(), with_traits(**CAPABLE, **run_again(bfloat16=(90.0, 50.0))))
    assert list(kinds) == ["precision", "compute"]
    assert kinds["precision"].share == pytest.approx(40 / 101, abs=0.01)
    assert kinds["precision"].location.op == "aten::mm"


@pytest.mark.parametrize(
    "details",
    [
        with_traits(**run_again(bfloat16=(90.0, 50.0))),  # the hardware has none
        with_traits(**CAPABLE),  # not tried
        with_traits(**CAPABLE, **run_again(bfloat16=(90.0, 95.0))),  # slower
        with_traits(**CAPABLE, **run_again(bfloat16=(90.0, 50.0)), autocast="bfloat16"),
    ],
)
def test_single_precision_is_not_named_without_evidence(details: Details) -> None:
    assert list(found(trained(), details)) == ["compute"]


def test_what_would_save_little_comes_after_the_computation() -> None:
    details = with_traits(**CAPABLE, **run_again(bfloat16=(90.0, 80.0)))
    assert list(found(trained(), details)) == ["compute", "precision"]


def test_denormals_cost_what_usual_values_were_measured_to_save() -> None:
    slow = run_again(no_subnormals=(60.0, 10.0), flush_denormals=(60.0, 60.0))
    kinds = found(trained(), with_traits(**slow))
    assert kinds["denormals"].share == pytest.approx(50 / 101, abs=0.01)
    assert kinds["denormals"].measures["flush_ratio"] == 1.0
    fast = run_again(no_subnormals=(60.0, 59.0))
    assert list(found(trained(), with_traits(**fast))) == ["compute"]


WRONG: dict[str, object] = {
    traits.CONV_LAYOUT: {"convolutions": 4, "channels_last": 0, "dims": 4}
}  # fmt: skip


def test_images_whose_layout_costs_much_are_layout() -> None:
    details = with_traits(**WRONG, **run_again(channels_last=(80.0, 40.0)))
    details = replace(details, layers=(conv("stem", 30.0), conv("body.0", 60.0)))
    kinds = found(trained(), details)
    assert next(iter(kinds)) == "layout"
    assert kinds["layout"].share == pytest.approx(40 / 101, abs=0.005)
    assert kinds["layout"].location.layer == "body.0"


def test_a_layout_that_was_not_tried_or_costs_little_is_not_in_the_way() -> None:
    assert list(found(trained(), with_traits(**WRONG))) == ["compute"]
    little = with_traits(**WRONG, **run_again(channels_last=(80.0, 70.0)))
    assert list(found(trained(), little)) == ["compute", "layout"]
    slower = with_traits(**WRONG, **run_again(channels_last=(80.0, 90.0)))
    assert list(found(trained(), slower)) == ["compute"]


def test_no_more_is_claimed_than_the_computation_takes() -> None:
    details = with_traits(**WRONG, **run_again(channels_last=(400.0, 200.0)))
    assert found(trained(), details)["layout"].share == pytest.approx(50 / 101, abs=0.005)


def test_operators_that_do_little_beyond_being_called_are_host_overhead() -> None:
    kinds = found(trained(), Details(traits=run_again(only_work=(60.0, 25.0))))
    assert next(iter(kinds)) == "host-overhead"
    assert kinds["host-overhead"].share == pytest.approx(75 / 101, abs=0.01)


LOGGED = ({"op": "aten::mm", "args": [{"shape": [2, 2], "dtype": "float32"}], "kwargs": {}}, 100)
SUBNORMAL = ({"op": "aten::sqrt", "args": [[{"shape": [2], "subnormal": 0.5}]], "kwargs": {}}, 1)


def test_operators_on_a_device_are_not_run_again() -> None:
    there = {"op": "aten::mm", "args": [{"shape": [2], "device": "cuda"}], "kwargs": {}}
    evidence = Evidence(Whole([trained()], Resources()), with_traits(**WRONG))
    assert worth_a_try(evidence, [LOGGED, (there, 1)]) == []
    here = {"op": "aten::ones_like", "args": [], "kwargs": {"device": {"device": "cpu"}}}
    assert worth_a_try(evidence, [LOGGED, (here, 1)]) == ["channels_last"]


@pytest.mark.parametrize(
    ("more", "logged", "wanted"),
    [
        ({}, [LOGGED], []),
        ({traits.DTYPES: {"float64": 0.1, "float32": 0.9}}, [LOGGED], ["float32", "nothing"]),
        ({}, [LOGGED, SUBNORMAL], ["no_subnormals", "flush_denormals"]),
        ({traits.FLUSHES_DENORMALS: True}, [LOGGED, SUBNORMAL], []),
        (WRONG, [LOGGED], ["channels_last"]),
        (CAPABLE, [LOGGED], ["bfloat16", "nothing"]),
        (CAPABLE | {traits.AUTOCAST: "bfloat16"}, [LOGGED], []),
        ({}, [({}, 5000)], ["only_work"]),
    ],
)
def test_only_what_could_matter_is_run_again(
    more: dict[str, object], logged: list[tuple[dict[str, object], int]], wanted: list[str]
) -> None:
    evidence = Evidence(Whole([trained()], Resources()), with_traits(**more))
    assert worth_a_try(evidence, logged) == wanted


@pytest.mark.parametrize(
    ("flags", "optimizer_ms", "kinds"),
    [
        ({"fused": None, "foreach": False}, 30.0, ["optimizer", "compute"]),
        ({"fused": None, "foreach": None}, 30.0, ["optimizer", "compute"]),
        ({"fused": None, "foreach": False}, 10.0, ["compute", "optimizer"]),
        ({"fused": True, "foreach": None}, 10.0, ["compute"]),
        ({"fused": True, "foreach": None}, 30.0, ["compute", "optimizer"]),
    ],
)
def test_the_optimizers_flags_decide(
    flags: dict[str, object], optimizer_ms: float, kinds: list[str]
) -> None:
    one = {"class": "AdamW", "parameters": 148} | flags
    made = trained(optimizer_ms=optimizer_ms)
    assert list(found(made, with_traits(optimizers=[one]))) == kinds


def test_time_outside_operators_is_host_overhead() -> None:
    tiny = tuple(op(f"aten::add.{n}", 4.0, calls=1000.0) for n in range(5))  # 4 µs each
    details = Details(ops=(op("aten::mm", 30.0), *tiny), traits={traits.COMPILED: False})
    kinds = found(trained(), details)
    assert next(iter(kinds)) == "host-overhead"
    assert kinds["host-overhead"].share == pytest.approx(70 / 101, abs=0.01)
    assert "5,010 operators run in every step." in kinds["host-overhead"].evidence


def test_python_in_the_forward_pass_is_host_overhead_without_operators() -> None:
    dear = HotLine(Location("model.py", 20, "Net.forward"), 0.9, 0.9, 0.0, 90)
    kinds = found(trained(), Details(stacks=(stacks(Phase.FORWARD, dear),)))
    assert kinds["host-overhead"].share == pytest.approx(0.9 * 40 / 101, abs=0.01)
    assert kinds["host-overhead"].location.line == 20
    native = dear._replace(native_share=0.95)
    assert list(found(trained(), Details(stacks=(stacks(Phase.FORWARD, native),)))) == ["compute"]


def test_causes_within_the_computation_do_not_overlap() -> None:
    details = Details(
        ops=(op("aten::mm", 10.0),),
        traits={
            traits.DTYPES: {"float64": 1.0},
            **run_again(float32=(80.0, 40.0)),
        },
    )
    everything = findings([trained()], Resources(), details)
    within = [f.share for f in everything if f.kind != "compute"]
    assert sum(within) <= 100 / 101 + 1e-9
    assert {f.kind for f in everything} >= {"host-overhead", "precision"}


def test_operators_of_slower_profiled_steps_count_by_their_part() -> None:
    tiny = op("aten::add", 100.0, calls=20_000.0)  # 5 µs each
    kinds = found(trained(), Details(ops=(op("aten::mm", 100.0), tiny)))
    assert kinds["host-overhead"].share == pytest.approx(50 / 101, abs=0.01)
