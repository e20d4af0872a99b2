"""Energy counters: a folder like the kernel's, and the stand-in for NVIDIA's driver."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepscope.collect.energy import POWERCAP, find_energy
from stepscope.collect.gpu import open_nvml
from stepscope.model import names
from stepscope.record.recorder import Recorder
from tests.unit.collect.conftest import Read

LIMIT_UJ = 1_000_000_000


@pytest.fixture
def powercap() -> Iterator[Path]:
    """Two packages as the kernel shows them. Not below pytest's folder: only root enters that."""
    folder = Path(tempfile.mkdtemp(prefix="powercap"))
    folder.chmod(0o755)
    zone(folder, "intel-rapl:0", "package-0", 5_000_000)
    zone(folder, "intel-rapl:0:0", "core", 1_000_000)
    zone(folder, "intel-rapl:0:1", "dram", 2_500_000)
    zone(folder, "intel-rapl:1", "package-1", 7_000_000)
    zone(folder, "intel-rapl:2", "psys", 99_000_000)
    zone(folder, "intel-rapl-mmio:0", "package-0", 5_000_000)
    (folder / "intel-rapl").mkdir()
    yield folder
    shutil.rmtree(folder)


def zone(powercap: Path, folder: str, name: str, energy_uj: int, limit: bool = True) -> None:
    (powercap / folder).mkdir()
    (powercap / folder / "name").write_text(f"{name}\n")
    (powercap / folder / "energy_uj").write_text(f"{energy_uj}\n")
    if limit:
        (powercap / folder / "max_energy_range_uj").write_text(f"{LIMIT_UJ}\n")


def joules(read: Read, name: str) -> list[tuple[int, float]]:
    return [(row.arg, row.value) for row in read(name)]


def test_packages_and_their_memory_are_counted_once(
    powercap: Path, recorder: Recorder, read: Read
) -> None:
    source = find_energy(str(powercap))
    source.sample(recorder)
    source.close()

    assert joules(read, names.ENERGY_CPU_JOULES) == [(0, 5.0), (1, 7.0)]
    assert joules(read, names.ENERGY_DRAM_JOULES) == [(0, 2.5)]
    assert not [reason for reason in source.reasons if "gpu" not in reason]


def test_a_counter_that_begins_again_goes_on_from_its_limit(
    powercap: Path, recorder: Recorder, read: Read
) -> None:
    counter = powercap / "intel-rapl:1" / "energy_uj"
    source = find_energy(str(powercap))
    for energy_uj in (999_000_000, 3_000_000, 4_000_000, 1_000_000):
        counter.write_text(f"{energy_uj}\n")
        source.sample(recorder)
    source.close()

    values = [joule for index, joule in joules(read, names.ENERGY_CPU_JOULES) if index == 1]
    assert values == [999.0, 1003.0, 1004.0, 2001.0]


def test_where_the_limit_is_unknown_nothing_is_made_up(
    powercap: Path, recorder: Recorder, read: Read
) -> None:
    zone(powercap, "intel-rapl:5", "package-5", 9_000_000, limit=False)
    source = find_energy(str(powercap))
    source.sample(recorder)
    (powercap / "intel-rapl:5" / "energy_uj").write_text("1000000\n")
    source.sample(recorder)
    source.sample(recorder)
    source.close()

    assert [one for one in joules(read, names.ENERGY_CPU_JOULES) if one[0] == 5] == [(5, 9.0)]
    assert f"{names.ENERGY_CPU_JOULES} of 5 stopped answering" in source.reasons


def test_counters_that_only_root_may_read_are_absent_with_the_remedy(
    powercap: Path, recorder: Recorder, read: Read
) -> None:
    for file in powercap.glob("*/energy_uj"):
        file.chmod(0o400 if os.geteuid() == 0 else 0o000)
    was = os.geteuid()
    if was == 0:
        os.seteuid(65534)
    try:
        source = find_energy(str(powercap))
        source.sample(recorder)
        source.close()
    finally:
        if was == 0:
            os.seteuid(0)

    assert joules(read, names.ENERGY_CPU_JOULES) == []
    cpu = [reason for reason in source.reasons if reason.startswith(names.ENERGY_CPU_JOULES)]
    assert len(cpu) == 2
    assert all("only root may" in reason and "chmod a+r" in reason for reason in cpu)


@pytest.mark.parametrize("text", ["", "soon\n", "-5\n"])
def test_a_counter_that_says_no_number_is_not_sampled(
    powercap: Path, recorder: Recorder, read: Read, text: str
) -> None:
    (powercap / "intel-rapl:0" / "energy_uj").write_text(text)
    source = find_energy(str(powercap))
    source.sample(recorder)
    source.close()

    assert joules(read, names.ENERGY_CPU_JOULES) == [(1, 7.0)]


def test_without_rapl_the_reasons_say_so(tmp_path: Path, recorder: Recorder, read: Read) -> None:
    source = find_energy(str(tmp_path / "missing"))
    source.sample(recorder)
    source.close()

    assert joules(read, names.ENERGY_CPU_JOULES) == []
    assert [reason.partition(":")[0] for reason in source.reasons][:2] == [
        names.ENERGY_CPU_JOULES,
        names.ENERGY_DRAM_JOULES,
    ]


def test_this_machine_either_counts_or_says_why_not(recorder: Recorder, read: Read) -> None:
    source = find_energy()
    source.sample(recorder)
    source.close()

    for name in (names.ENERGY_CPU_JOULES, names.ENERGY_DRAM_JOULES, names.ENERGY_GPU_JOULES):
        told = any(reason.startswith(name) for reason in source.reasons)
        assert told or joules(read, name), f"{name}: neither samples nor a reason"


ASK = """
import sys
from stepscope.collect.energy import find_energy
from stepscope.record.recorder import Recorder
from stepscope.record.twin import TwinCore

class Told(Recorder):
    def __init__(self):
        super().__init__(TwinCore())
        self.sample = lambda name, value, arg: print(self.core._text(name), arg, value)

source = find_energy(sys.argv[1])
source.sample(Told())
source.sample(Told())
source.close()
print(*[reason for reason in source.reasons if "energy.gpu" in reason], sep="\\n")
"""


def test_gpus_are_counted_as_far_as_the_driver_does(tmp_path: Path) -> None:
    compiler = shutil.which("gcc") or pytest.skip("there is no compiler to build the stand-in with")
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    source = Path(__file__).parents[2] / "standins" / "nvml.c"
    driver = tmp_path / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", driver, source], check=True)

    told = subprocess.run(
        [sys.executable, "-c", ASK, str(tmp_path / "missing")],
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert told.splitlines() == [
        "energy.gpu_joules 0 1484.5",  # the first question was whether it counts at all
        "energy.gpu_joules 0 1734.5",
        "energy.gpu_joules of 1: this card does not count its energy",
    ]


def test_without_a_driver_the_reason_says_so() -> None:
    nvml, why_not = open_nvml()
    if nvml is not None:
        nvml.nvmlShutdown()
        pytest.skip("this machine has a GPU")
    assert why_not
    assert f"{names.ENERGY_GPU_JOULES}: {why_not}" in find_energy(POWERCAP).reasons
