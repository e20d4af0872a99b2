"""Facts about a program that no time tells: the one vocabulary of collectors and analysers.

Each is recorded as a `trait` mark, "name\\tJSON"; a later one replaces an earlier one.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "ALTERNATIVES",
    "AUTOCAST",
    "COMPILED",
    "CONV_LAYOUT",
    "CPU_FEATURES",
    "DTYPES",
    "FLUSHES_DENORMALS",
    "INTEROP_THREADS",
    "ITEM_CALLS",
    "OPS_PER_STEP",
    "OPTIMIZERS",
    "THREADS",
    "WORLD_SIZE",
]

ALTERNATIVES: Final = (
    "alternatives"  # {name: {"now_ms", "then_ms", "ops", "dearest"}}: the step's own
)
# operators, run again after training as they were and as they could be (collect/replay.py)
DTYPES: Final = "dtypes"  # {"float32": share of the parameters' elements, …}, as of the first step
AUTOCAST: Final = "autocast"  # dtype under which forwards ran, or null
OPTIMIZERS: Final = (
    "optimizers"  # [{"class", "fused", "foreach", "capturable", "parameters": how many,
)
# "shapes": [[shape, dtype, how many]]}]
CONV_LAYOUT: Final = "conv_layout"  # {"convolutions": n, "channels_last": n of them, "dims": 4}
FLUSHES_DENORMALS: Final = "flushes_denormals"  # bool
THREADS: Final = "threads"  # torch.get_num_threads()
INTEROP_THREADS: Final = "interop_threads"
COMPILED: Final = "compiled"  # bool: the model went through torch.compile
OPS_PER_STEP: Final = "ops_per_step"  # {"ops": a step, "median_us": of one}: operators that the
# program or autograd called, those that they consist of included in their time
ITEM_CALLS: Final = "item_calls"  # Tensor.item() and its like, a step, outside the optimizer
CPU_FEATURES: Final = "cpu_features"  # of avx2, avx512f, avx512_bf16, amx_bf16, …: those it has
WORLD_SIZE: Final = "world_size"  # ranks of the default process group of torch.distributed
