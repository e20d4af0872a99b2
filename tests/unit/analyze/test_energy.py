from __future__ import annotations

import pytest

from stepscope.analyze.energy import EnergyFold
from stepscope.model import names
from stepscope.model.energy import EnergyUse
from tests.unit.analyze.made import MS, Event, batch, sample

S = 1000.0  # ms


def every_second(
    name: str, first: float, per_s: float, arg: int = 0, seconds: int = 10
) -> list[Event]:
    return [sample(name, at * S, first + at * per_s, arg) for at in range(seconds + 1)]


def used(
    events: list[Event], start: float = 2.0, end: float = 8.0, cpu_watts: float | None = None
) -> EnergyUse:
    fold = EnergyFold()
    for at in range(0, len(events), 7):  # batches end anywhere
        fold.update(batch(events[at : at + 7]))
    return fold.get(round(start * S * MS), round(end * S * MS), cpu_watts)


CPU = [
    *every_second(names.ENERGY_CPU_JOULES, 1000.0, 50.0, 0),
    *every_second(names.ENERGY_CPU_JOULES, 77.0, 40.0, 1),
]
DRAM = every_second(names.ENERGY_DRAM_JOULES, 5.0, 3.0)
BUSY = [
    *every_second(names.HOST_CPU_BUSY_NS, 0.0, 1e9),  # one CPU of four
    *every_second(names.HOST_CPU_COUNT, 4.0, 0.0),
]


def test_counters_of_all_packages_are_measured() -> None:
    found = used([*CPU, *DRAM])
    assert (found.cpu.joules, found.cpu.how, found.cpu.model) == (540.0, "measured", "rapl")
    assert (found.dram.joules, found.dram.how) == (18.0, "measured")
    assert (found.total_joules, found.how, found.missing) == (558.0, "measured", ())
    assert "All that ran on the machine" in found.cpu.note


def test_the_edges_may_lie_between_samples() -> None:
    assert used(DRAM, 2.5, 4.25).dram.joules == pytest.approx(1.75 * 3.0)


def test_without_counters_nothing_is_made_up() -> None:
    found = used(BUSY)
    assert (found.cpu.joules, found.cpu.how) == (None, "unavailable")
    assert (found.dram.joules, found.gpu.joules, found.total_joules) == (None, None, None)
    assert (found.how, found.missing) == ("unavailable", ("cpu", "dram"))
    assert found.gpu.note == "No GPU was seen."
    assert found.cpu.note


def test_the_users_watts_are_an_estimate_for_the_busy_share() -> None:
    found = used(BUSY, cpu_watts=100.0)
    assert found.cpu.joules == pytest.approx(100.0 * 0.25 * 6)
    assert (found.cpu.how, found.cpu.model) == ("estimated", "given-watts-times-busy-share")
    assert (found.how, found.missing) == ("estimated", ("dram",))


def test_a_counter_wins_over_the_users_watts() -> None:
    found = used([*CPU, *BUSY], cpu_watts=100.0)
    assert (found.cpu.joules, found.cpu.how) == (540.0, "measured")


def test_the_users_watts_need_samples_of_the_cpus() -> None:
    found = used(DRAM, cpu_watts=100.0)
    assert (found.cpu.joules, found.cpu.how) == (None, "unavailable")


def test_a_card_that_counts_is_measured() -> None:
    found = used(
        [
            *every_second(names.ENERGY_GPU_JOULES, 9.0, 250.0),
            *every_second(names.GPU_POWER_WATTS, 999.0, 0.0),
        ]
    )
    assert (found.gpu.joules, found.gpu.how, found.gpu.model) == (1500.0, "measured", "nvml")
    assert (found.total_joules, found.how, found.missing) == (1500.0, "measured", ("cpu", "dram"))


def test_a_card_that_only_tells_its_power_is_estimated() -> None:
    # Power rises from 100 W by 20 W a second: 140 W at 2 s, 260 W at 8 s, 200 W on average.
    found = used(every_second(names.GPU_POWER_WATTS, 100.0, 20.0))
    assert found.gpu.joules == pytest.approx(6 * 200.0)
    assert (found.gpu.how, found.gpu.model) == ("estimated", "power-integral")
    assert found.how == "estimated"


def test_one_estimated_card_makes_the_sum_an_estimate() -> None:
    found = used(
        [
            *every_second(names.ENERGY_GPU_JOULES, 0.0, 100.0, 0),
            *every_second(names.GPU_POWER_WATTS, 50.0, 0.0, 1),
        ]
    )
    assert found.gpu.joules == pytest.approx(600.0 + 300.0)
    assert (found.gpu.how, found.gpu.model) == ("estimated", "power-integral")


def test_a_silent_card_leaves_the_sum_unknown_and_is_named() -> None:
    found = used(
        [
            *CPU,
            *every_second(names.ENERGY_GPU_JOULES, 0.0, 100.0, 0),
            *every_second(names.GPU_BUSY_SHARE, 0.5, 0.0, 1),
        ]
    )
    assert (found.gpu.joules, found.gpu.how) == (None, "unavailable")
    assert "GPU 1" in found.gpu.note
    assert "GPU 0 used 600 J" in found.gpu.note
    assert found.missing == ("dram", "gpu")
    assert found.total_joules == 540.0


def test_samples_far_apart_say_nothing_about_a_moment() -> None:
    found = used([*CPU, *every_second(names.GPU_POWER_WATTS, 50.0, 0.0)], 2.3, 2.6)
    assert (found.cpu.joules, found.cpu.how) == (None, "unavailable")
    assert found.gpu.joules is None
    assert "too far apart" in found.cpu.note


def test_a_figure_for_a_part_of_the_time_says_so() -> None:
    found = used(CPU, 5.0, 15.0)
    assert found.cpu.joules == 450.0  # sampled for five of these ten seconds
    assert "50% of the time only" in found.cpu.note


def test_long_runs_are_kept_small_and_lose_no_joule() -> None:
    events = every_second(names.ENERGY_CPU_JOULES, 0.0, 50.0, seconds=9000)
    assert used(events, 0.0, 9000.0).cpu.joules == 450_000.0


def test_other_samples_are_passed_over() -> None:
    found = used(every_second(names.PROCESS_RSS_BYTES, 0.0, 1.0))
    assert found.total_joules is None
