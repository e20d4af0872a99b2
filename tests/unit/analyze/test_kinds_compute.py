from __future__ import annotations

from dataclasses import replace

import pytest

from stepscope.analyze.findings import findings
from stepscope.analyze.resources import Resources
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
    traits.DENORMAL_SHARE: 0.0,
    traits.RECOMPUTE: {"calls": 0, "ms": 0.0},
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


def test_double_precision_costs_about_half() -> None:
    kinds = found(trained(), with_traits(dtypes={"float64": 1.0}))
    assert next(iter(kinds)) == "precision"
    assert kinds["precision"].share == pytest.approx(0.5 * 100 / 101, abs=0.005)
    assert kinds["precision"].missing


def test_single_precision_is_named_after_the_computation_where_bfloat16_would_do() -> None:
    capable = {traits.CPU_FEATURES: ["avx512f", "amx_bf16"]}
    kinds = found(trained(), with_traits(**capable))
    assert list(kinds) == ["compute", "precision"]
    assert kinds["precision"].share == pytest.approx(0.95 * 0.9 * 0.5, abs=0.01)
    assert kinds["precision"].location.op == "aten::addmm"
    assert list(found(trained(), with_traits())) == ["compute"]
    assert list(found(trained(), with_traits(**capable, autocast="bfloat16"))) == ["compute"]


def test_denormals_cost_what_this_cpu_takes_for_them() -> None:
    many = {traits.DENORMAL_SHARE: 0.2, traits.DENORMAL_SLOWDOWN: 3.0}
    kinds = found(trained(), with_traits(**many))
    hit = 1 - 0.8**8
    assert kinds["denormals"].share == pytest.approx(100 / 101 * 2 * hit / (1 + 2 * hit), abs=0.01)
    unmeasured = found(trained(), with_traits(denormal_share=0.2))["denormals"]
    assert unmeasured.missing
    assert unmeasured.confidence < 0.6 < kinds["denormals"].confidence
    flushed = with_traits(**many, flushes_denormals=True)
    assert "denormals" not in found(trained(), flushed)
    assert "denormals" not in found(trained(), with_traits(denormal_share=0.0005))


def test_convolutions_that_are_not_channels_last_are_layout() -> None:
    wrong = {traits.CONV_LAYOUT: {"convolutions": 4, "channels_last": 0, "dims": 4}}
    details = replace(with_traits(**wrong), layers=(conv("stem", 30.0), conv("body.0", 60.0)))
    kinds = found(trained(), details)
    assert kinds["layout"].share == pytest.approx(90 / 101 * 0.18, abs=0.005)
    assert kinds["layout"].location.layer == "body.0"
    assert kinds["layout"].confidence < 0.6  # the figure is of other programs
    assert "layout" not in found(trained(), with_traits(**wrong))  # convolutions were not timed


def test_copies_between_layouts_are_layout_too() -> None:
    wrong = {traits.CONV_LAYOUT: {"convolutions": 4, "channels_last": 0, "dims": 4}}
    details = Details(
        layers=(conv("stem", 20.0),), ops=(op("aten::copy_", 30.0), op("aten::mm", 60.0)),
        traits=wrong,
    )  # fmt: skip
    kinds = found(trained(), details)
    assert kinds["layout"].share == pytest.approx((20 * 0.18 + 30) / 101, abs=0.005)


def test_recomputation_costs_what_it_takes() -> None:
    again = {traits.RECOMPUTE: {"calls": 12, "ms": 25.0}}
    kinds = found(trained(), with_traits(**again), Resources(memory_available_bytes=4e9,
                                                             memory_total_bytes=8e9))  # fmt: skip
    assert kinds["recompute"].share == pytest.approx(25 / 101, abs=0.005)
    assert "4.0 GB of 8.0 GB memory were never used." in kinds["recompute"].evidence


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
        traits={traits.DTYPES: {"float64": 1.0}, traits.RECOMPUTE: {"calls": 2, "ms": 40.0}},
    )
    everything = findings([trained()], Resources(), details)
    within = [f.share for f in everything if f.kind != "compute"]
    assert sum(within) <= 100 / 101 + 1e-9
    assert [f.kind for f in everything][:1] == ["host-overhead"]


def test_operators_of_slower_profiled_steps_count_by_their_part() -> None:
    tiny = op("aten::add", 100.0, calls=20_000.0)  # 5 µs each
    kinds = found(trained(), Details(ops=(op("aten::mm", 100.0), tiny)))
    assert kinds["host-overhead"].share == pytest.approx(50 / 101, abs=0.01)
