"""Snapshots of torch's CUDA allocator, written by hand: every figure is known by construction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

MIB = 1 << 20
TORCH = "/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py"
CPP = {"name": "at::empty", "filename": "/pytorch/aten/src/ATen/Empty.cpp", "line": 5}


def frames(line: int, file: str = "/home/me/train.py", name: str = "forward") -> list[Any]:
    return [
        CPP,
        {"name": "forward", "filename": TORCH, "line": 125},
        {"name": name, "filename": file, "line": line},
        {"name": "<module>", "filename": file, "line": 99},
    ]


def block(address: int, size: int, state: str = "active_allocated", line: int = 0) -> Any:
    return {
        "address": address,
        "size": size,
        "requested_size": size - 12 if state != "inactive" else 0,
        "state": state,
        "frames": frames(line) if line else [],
    }


def segment(address: int, *blocks: Any, device: int = 0) -> Any:
    used = [one["size"] for one in blocks if one["state"] != "inactive"]
    return {
        "device": device,
        "address": address,
        "total_size": sum(one["size"] for one in blocks),
        "allocated_size": sum(used),
        "active_size": sum(used),
        "requested_size": sum(used),
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "blocks": list(blocks),
    }


def event(action: str, address: int, size: int, time_us: int, line: int = 0) -> Any:
    return {
        "action": action,
        "addr": address,
        "size": size,
        "stream": 0,
        "time_us": time_us,
        "frames": frames(line) if line else [],
        "pool_id": (0, 0),
    }


def made_snapshot() -> Any:
    """Device 0. At the end: 10 MiB at 0x1000_0000 (from before the window, allocated in line 3)
    and 4 MiB at 0x2000_0000 (line 7). In the window: 6 MiB from before it are freed, 20 MiB come
    (line 5, the peak is 10 + 20 + 4 MiB) and go. 2 GiB are refused (line 8)."""
    first, second, third = 0x1000_0000, 0x2000_0000, 0x3000_0000
    trace = [
        event("free_requested", third, 6 * MIB - 12, 1_000_000),
        event("free_completed", third, 6 * MIB - 12, 1_000_010),
        event("segment_alloc", second, 24 * MIB, 1_000_500),
        event("alloc", third, 20 * MIB - 12, 1_001_000, line=5),
        event("alloc", second, 4 * MIB - 12, 1_002_000, line=7),
        {"action": "oom", "size": 2048 * MIB, "stream": 0, "device_free": 5, "time_us": 1_002_500,
         "frames": frames(8)},
        event("free_requested", third, 20 * MIB - 12, 1_003_000),
        event("free_completed", third, 20 * MIB - 12, 1_003_000),
        {"action": "snapshot", "addr": 0, "size": 0, "stream": 0, "time_us": 1_004_000},
    ]  # fmt: skip
    return {
        "segments": [
            segment(first, block(first, 10 * MIB, line=3)),
            segment(
                second,
                block(second, 4 * MIB, line=7),
                block(second + 4 * MIB, 8 * MIB, "inactive"),
                block(second + 12 * MIB, 2 * MIB, "active_pending_free"),
                block(second + 14 * MIB, 6 * MIB, "inactive"),
            ),
            segment(third, block(third, 20 * MIB, "inactive")),
        ],
        "device_traces": [trace, []],
        "allocator_settings": {"expandable_segments": False, "roundup_power2_divisions": {"1": 0}},
        "external_annotations": [],
    }


def traces_folder() -> Path | None:
    """Recordings by others, beside the project; None: not here."""
    folder = Path(__file__).parents[3].parent / "shared" / "traces"
    return folder if folder.is_dir() else None
