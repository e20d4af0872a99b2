"""Transfers, saves, garbage collections, and the cost of hooks."""

from __future__ import annotations

import gc
import io
import sys
import types
from pathlib import Path

import pytest
import torch

from stepscope.collect.cost import measure_hook_cost
from stepscope.collect.gc import GcCollector
from stepscope.collect.saves import SavesCollector
from stepscope.collect.transfer import TransferCollector, accelerator_present
from stepscope.model import names
from stepscope.record.recorder import Recorder
from tests.unit.collect.conftest import Read, Started


def test_a_move_to_another_device_is_a_span_with_its_bytes(started: Started, read: Read) -> None:
    started(TransferCollector(force=True))
    tensor = torch.ones(10, dtype=torch.float32)
    there = torch.ones(1, device="meta")

    assert tensor.to("meta").device.type == "meta"
    assert tensor.to(device=torch.device("meta")).device.type == "meta"
    assert tensor.to(there).device.type == "meta"
    assert tensor.to(tensor=there).device.type == "meta"
    torch.nn.Linear(2, 2).to("meta")

    assert [row.arg for row in read(names.TRANSFER)] == [40, 40, 40, 40, 16, 8]


def test_calls_that_move_nothing_are_no_spans(started: Started, read: Read) -> None:
    started(TransferCollector(force=True))
    tensor = torch.ones(10)

    assert tensor.to("cpu") is tensor
    assert tensor.cpu() is tensor
    assert tensor.to(torch.float64).dtype == torch.float64
    assert tensor.to(dtype=torch.float64, copy=True).dtype == torch.float64
    assert tensor.to() is tensor
    with pytest.raises(RuntimeError, match="nowhere"):
        tensor.to("nowhere")

    assert read(names.TRANSFER) == []


def test_without_an_accelerator_tensors_are_left_alone(started: Started) -> None:
    if accelerator_present(torch):
        pytest.skip("this machine has an accelerator")
    started(TransferCollector())

    assert "to" not in vars(torch.Tensor)


def test_a_save_is_a_span_with_the_bytes_of_the_file(
    started: Started, read: Read, tmp_path: Path
) -> None:
    started(SavesCollector())
    path = tmp_path / "x.pt"

    torch.save({"a": torch.ones(3)}, path)
    torch.serialization.save(torch.ones(1), f=str(path))
    torch.save(torch.ones(1), io.BytesIO())

    saves = [row.arg for row in read(names.SAVE)]
    assert saves[0] > 0
    assert saves[1] == path.stat().st_size
    assert saves[2] == 0
    assert torch.load(path).tolist() == [1.0]


def test_a_library_imported_later_is_seen_too(
    started: Started, read: Read, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "safetensors").mkdir()
    (tmp_path / "safetensors" / "__init__.py").touch()
    (tmp_path / "safetensors" / "torch.py").write_text(
        "def save_file(tensors, filename):\n    filename.write_bytes(b'12345')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    for module in ("safetensors", "safetensors.torch"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    started(SavesCollector())

    from safetensors.torch import save_file

    save_file({}, tmp_path / "model.safetensors")

    assert [row.arg for row in read(names.SAVE)] == [5]


def test_a_collection_is_a_span_with_its_generation(started: Started, read: Read) -> None:
    collector = started(GcCollector())
    collector.start(None)  # a second start does nothing

    gc.collect()
    collector.stop()
    gc.collect()

    spans = [row for row in read(names.GC) if row.arg == 2]
    assert len(spans) == 1


def test_measuring_the_cost_of_hooks_leaves_no_events(recorder: Recorder, read: Read) -> None:
    cost = measure_hook_cost(recorder)

    assert 0 <= cost.probe_ns < cost.call_ns < 1e6
    assert read() == []
    assert (recorder.counters()["calls"], recorder.counters()["probes"]) == (0, 0)


def test_measuring_the_cost_of_hooks_draws_no_random_number(recorder: Recorder) -> None:
    before = torch.get_rng_state()

    measure_hook_cost(recorder)

    assert torch.equal(torch.get_rng_state(), before)


def test_an_accelerator_counts_only_where_its_device_is(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = types.SimpleNamespace(is_built=lambda: False)
    fake = types.SimpleNamespace(
        backends=types.SimpleNamespace(mps=absent),
        version=types.SimpleNamespace(cuda="12.8", hip=None),
    )

    monkeypatch.setattr("os.path.exists", lambda path: False)
    assert not accelerator_present(fake)
    monkeypatch.setattr("os.path.exists", lambda path: path == "/dev/nvidiactl")
    assert accelerator_present(fake)
    fake.version.cuda = None
    assert not accelerator_present(fake)
