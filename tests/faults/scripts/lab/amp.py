"""Mixed precision where it pays: on CPUs that multiply in bfloat16."""

from pathlib import Path

import torch


def has_bfloat16() -> bool:
    info = Path("/proc/cpuinfo")
    flags = info.read_text() if info.exists() else ""
    return "avx512_bf16" in flags or "amx_bf16" in flags


_enabled = has_bfloat16()


def mixed() -> torch.autocast:
    return torch.autocast("cpu", torch.bfloat16, enabled=_enabled)
