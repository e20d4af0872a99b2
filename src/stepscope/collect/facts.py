"""Facts that are looked up once: modules, optimizers, threads, the CPU."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

__all__ = [
    "conv_layout",
    "cpu_features",
    "dtype_shares",
    "flushes_denormals",
    "is_channels_last",
    "is_compiled",
    "optimizer_facts",
    "world_size",
]

MOST_SHAPES = 100
_FEATURES = (
    "avx", "avx2", "fma", "f16c", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16",
    "amx_bf16", "amx_int8", "amx_tile", "asimd", "bf16", "sve", "sve2",
)  # fmt: skip


def dtype_shares(roots: Iterable[Any]) -> dict[str, float]:
    """Of the elements of all parameters, by dtype."""
    elements: Counter[str] = Counter()
    seen: set[int] = set()
    for root in roots:
        for parameter in root.parameters():
            if id(parameter) not in seen and not _is_lazy(parameter):
                seen.add(id(parameter))
                elements[str(parameter.dtype).removeprefix("torch.")] += parameter.numel()
    total = sum(elements.values())
    return {name: count / total for name, count in elements.most_common()} if total else {}


def _is_lazy(parameter: Any) -> bool:
    return hasattr(parameter, "materialize")


def optimizer_facts(optimizers: Iterable[Any]) -> list[dict[str, Any]]:
    """How each is set up. A flag that groups differ in is that of the first one; null: torch's
    own choice."""
    found = []
    for optimizer in optimizers:
        groups = getattr(optimizer, "param_groups", None) or [{}]
        flags = {name: groups[0].get(name) for name in ("fused", "foreach", "capturable")}
        parameters = sum(len(group.get("params", ())) for group in groups)
        found.append({
            "class": type(optimizer).__name__, "parameters": parameters, **flags,
            "shapes": _shapes(groups),
        })  # fmt: skip
    return found


def _shapes(groups: Iterable[dict[str, Any]]) -> list[list[Any]]:
    """[shape, dtype, how many] of the parameters, the most frequent first."""
    counted = Counter(
        (tuple(parameter.shape), str(parameter.dtype).removeprefix("torch."))
        for group in groups
        for parameter in group.get("params", ())
        if not _is_lazy(parameter)
    )
    return [[list(shape), dtype, n] for (shape, dtype), n in counted.most_common(MOST_SHAPES)]


def conv_layout(torch: Any, roots: Iterable[Any], seen: Sequence[int] = ()) -> dict[str, int]:
    """Convolutions over images (4 dimensions) or, where there are none, over volumes (5).

    One counts as channels_last by its weights, or by its input (seen: ids of those).
    """
    by_dims: dict[int, list[Any]] = {4: [], 5: []}
    for root in roots:
        for module in root.modules():
            if isinstance(module, torch.nn.modules.conv._ConvNd) and not _is_lazy(module.weight):
                by_dims.setdefault(module.weight.dim(), []).append(module)
    dims = 4 if by_dims[4] or not by_dims[5] else 5
    there = by_dims[dims]
    last = [c for c in there if id(c) in seen or is_channels_last(torch, c.weight)]
    return {"convolutions": len(there), "channels_last": len(last), "dims": dims}


def is_channels_last(torch: Any, tensor: Any) -> bool:
    """Whether it lies so and not the other way (with one channel it can be both)."""
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(tensor.dim())
    if last is None or tensor.is_contiguous():
        return False
    return bool(tensor.is_contiguous(memory_format=last))


def is_compiled(roots: Iterable[Any]) -> bool:
    """Whether a model went through torch.compile, or anything at all did."""
    frame = sys.modules.get("torch._dynamo.eval_frame")
    if frame is None:  # nothing was ever compiled
        return False
    utils: Any = sys.modules.get("torch._dynamo.utils")
    if utils is not None and utils.counters["frames"].get("ok"):
        return True
    compiled = frame.OptimizedModule
    return any(
        isinstance(module, compiled) or getattr(module, "_compiled_call_impl", None) is not None
        for root in roots
        for module in root.modules()
    )


def flushes_denormals(torch: Any) -> bool:
    """Found by computing: half of the smallest normal number is 0 where they are flushed."""
    tiny = torch.finfo(torch.float32).tiny
    return float(torch.full((1,), tiny, dtype=torch.float32, device="cpu").mul_(0.5)[0]) == 0.0


def cpu_features(cpuinfo: Path = Path("/proc/cpuinfo")) -> list[str]:
    """Those that decide how fast a dtype is, of the first CPU."""
    try:
        with cpuinfo.open() as lines:
            for line in lines:
                if line.startswith(("flags", "Features")):
                    flags = set(line.partition(":")[2].split())
                    return [name for name in _FEATURES if name in flags]
    except OSError:
        pass
    return []


def world_size() -> int:
    """The ranks of the default process group; 1 where there is none."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return 1
    return int(distributed.get_world_size())
