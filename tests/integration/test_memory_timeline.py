"""The raw timeline that the installed torch writes is read, and says what happened."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from stepscope.analyze.memory_files import memory_of_timeline
from stepscope.errors import FormatError
from stepscope.interop.load import load_memory_file
from stepscope.model.allocations import CategoryTimeline

pytest.importorskip("torch", reason="torch is not installed")


# In a process of its own: what torch's profiler prints is decided by its first use in a process.
PROGRAM = """
import sys, warnings
import torch
from torch.profiler import ProfilerActivity, profile

warnings.simplefilter("ignore")  # torch means to replace this export some day
model = torch.nn.Linear(512, 2048)
optimizer = torch.optim.SGD(model.parameters(), momentum=0.9)
with profile(
    activities=[ProfilerActivity.CPU], profile_memory=True, record_shapes=True, with_stack=True
) as profiler:
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(256, 512)).sum().backward()
        optimizer.step()
        profiler.step()
for path in sys.argv[1:]:
    profiler.export_memory_timeline(path, "cpu")
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three steps of a model with 1,050,624 parameters of 4 bytes."""
    folder = tmp_path_factory.mktemp("timeline")
    paths = [str(folder / "a.raw.json.gz"), str(folder / "drawn.json")]
    subprocess.run([sys.executable, "-c", PROGRAM, *paths], check=True, capture_output=True)
    return folder / "a.raw.json.gz"


def test_the_peak_is_what_the_entries_add_up_to(exported: Path) -> None:
    total, highest = 0, 0
    for _, _, size, _ in json.loads(gzip.decompress(exported.read_bytes())):
        total += size
        highest = max(highest, total)
    loaded = load_memory_file(exported)
    assert isinstance(loaded, CategoryTimeline)
    (device,) = memory_of_timeline(loaded).devices
    assert device.peak.bytes == highest
    assert device.live_bytes == total


def test_parameters_are_known_by_their_size(exported: Path) -> None:
    loaded = load_memory_file(exported)
    assert isinstance(loaded, CategoryTimeline)
    (device,) = memory_of_timeline(loaded).devices
    sizes = {part.category: part.bytes for part in device.peak.parts}
    assert sizes["parameter"] >= 4 * (512 * 2048 + 2048)


def test_the_form_for_pictures_is_told_apart(exported: Path) -> None:
    with pytest.raises(FormatError, match=r"\.raw\.json\.gz"):
        load_memory_file(exported.with_name("drawn.json"))
