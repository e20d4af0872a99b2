"""What to do about memory that an allocator holds and nobody uses."""

from __future__ import annotations

from dataclasses import replace

from stepscope.model.finding import Finding, Recommendation
from stepscope.model.kinds import Signal
from stepscope.model.memory import Fragmentation, Memory

__all__ = ["advise_fragmentation", "fix_for", "fragmentation"]

_GLIBC = "glibc"


def fragmentation(finding: Finding) -> Recommendation:
    """The same fix, for a finding."""
    measured = {name: int(value) for name, value in finding.measures.items()}
    found = Fragmentation(
        _GLIBC if measured["on_host"] else "cuda",
        measured["reserved_bytes"],
        measured["allocated_bytes"],
        measured["free_bytes"],
        measured.get("largest_free_bytes"),
        measured.get("inactive_split_bytes"),
        reused_bytes=measured["reused_bytes"],
    )
    return Recommendation(
        title="Have freed memory lie in fewer places",
        action=fix_for(found) or "Allocate large blocks once, before the loop",
    )


def advise_fragmentation(memory: Memory) -> Memory:
    """With a fix for each allocator whose unused memory is worth one."""
    advised = tuple(one._replace(fix=fix_for(one)) for one in memory.fragmentation)
    return replace(memory, fragmentation=advised)


def fix_for(found: Fragmentation) -> str:
    """ "": it is as it should be, or cannot be told."""
    if found.scattered_bytes <= Signal.SCATTERED_SHARE * found.reserved_bytes:
        return ""
    if found.allocator == _GLIBC:
        return (
            "Start Python with MALLOC_ARENA_MAX=2 in its environment, or with jemalloc"
            " (LD_PRELOAD=libjemalloc.so.2): freed memory then lies in fewer places."
        )
    if 2 * (found.inactive_split_bytes or 0) >= found.free_bytes:
        return (
            "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True before Python starts: most of"
            " the free memory lies in segments that are partly in use, and can neither be joined"
            " nor given back."
        )
    return (
        "Call torch.cuda.empty_cache() once, where the sizes of tensors change (after the first"
        " steps, before evaluation): most of the free memory lies in whole segments of sizes that"
        " are no longer asked for."
    )
