"""Where the bytes are: what stands behind the findings about memory, and what `stepscope memory`
shows. The same values whether a run was recorded here or another tool's file was read.

None: not measured. Bytes of tensors are those of their storages, each counted once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, NamedTuple

from stepscope.model.finding import Location
from stepscope.model.plain import Amount, Count, Known, Range

__all__ = [
    "ACTIVATION",
    "CATEGORIES",
    "GRADIENT",
    "INPUT",
    "MAX_MEMORY_POINTS",
    "OPTIMIZER_STATE",
    "OTHER",
    "PARAMETER",
    "TEMPORARY",
    "Coverage",
    "DeviceMemory",
    "Fragmentation",
    "GcGeneration",
    "GcUse",
    "Growing",
    "Headroom",
    "LineBytes",
    "Memory",
    "MemoryPoint",
    "Peak",
    "PeakPart",
    "RefusedAllocation",
]

PARAMETER: Final = "parameter"  # and the model's buffers
GRADIENT: Final = "gradient"
OPTIMIZER_STATE: Final = "optimizer state"
ACTIVATION: Final = "activation"  # made by forward, and there until backward has used it
INPUT: Final = "input"  # batches, and what is made of them before the model sees it
TEMPORARY: Final = "temporary"  # came and went within forward, backward or the optimizer
OTHER: Final = "other"  # nothing of that can be told

# The order of the bytes in a MemoryPoint, and of the areas in a picture, from the bottom.
CATEGORIES: Final = (
    PARAMETER,
    OPTIMIZER_STATE,
    GRADIENT,
    ACTIVATION,
    INPUT,
    TEMPORARY,
    OTHER,
)
MAX_MEMORY_POINTS: Final = 2000
_MAX_STEPS: Final = 20_000  # far more than are kept


class MemoryPoint(NamedTuple):
    """What was allocated at a moment. `step`: -1: not known (another tool's file)."""

    at_ms: Amount  # since the first point of the run or file
    step: int
    bytes: Annotated[
        tuple[Count, ...], Range(len(CATEGORIES), len(CATEGORIES))
    ]  # in the order of CATEGORIES

    @property
    def total(self) -> int:
        return sum(self.bytes)


class PeakPart(NamedTuple):
    """Blocks of one category that one line allocated while one layer was at work."""

    category: Annotated[str, Known(CATEGORIES)]
    bytes: Count
    blocks: Count | None
    location: Location = Location()  # the user's innermost line, and `layer`; as far as known
    stack: tuple[Location, ...] = ()  # innermost first


@dataclass(frozen=True, slots=True)
class Peak:
    """The most that was allocated at once on a device, and what it was made of.

    `bytes` is of the whole run. The parts add up to `parts_bytes`: where not all steps were looked
    at closely, that is the peak of the step that came closest to it (`parts_step`).
    """

    bytes: Count
    step: int = -1
    at_ms: Amount | None = None
    parts: tuple[PeakPart, ...] = ()  # largest first
    parts_bytes: Count = 0
    parts_step: int = -1


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """One device. `points`: within steps that were looked at closely, or all that a file tells.

    `steps`: for each step that was seen, (its number, most bytes within it, bytes at its end), with
    neighbours taken together when there are many.
    """

    device: str  # "cpu", "cuda:0"
    peak: Peak
    points: Annotated[tuple[MemoryPoint, ...], Range(0, MAX_MEMORY_POINTS)] = ()
    steps: Annotated[tuple[tuple[int, Count, Count], ...], Range(0, _MAX_STEPS)] = ()
    allocations: Count = 0
    frees: Count = 0
    live_bytes: Count = 0  # at the end


class Growing(NamedTuple):
    """A line whose allocations are not given back, and what kind of growth that is.

    verdict: "leak", "cycle garbage" (a collection frees it), "cache" (it stopped growing),
    "input shape" (it follows the size of the batch), "slowing". What is known to belong to a model
    or an optimizer is no growth.
    """

    verdict: str
    why: str  # the reason, a sentence
    bytes_per_step: float
    live_bytes: Count
    live_blocks: Count
    category: str
    location: Location
    stack: tuple[Location, ...] = ()  # innermost first
    held_by: tuple[str, ...] = ()  # who refers to it, the nearest first
    made_by: str = ""  # of cycle garbage: the class of the objects in the cycle
    first_step: int = 0
    last_step: int = 0
    steady_share: Amount = 1.0  # of the windows, those in which it grew
    kept_share: Amount | None = None  # of its bytes, what a collection left; None: none was made


class Fragmentation(NamedTuple):
    """Memory that an allocator holds and nobody uses.

    share: of the free bytes, those that are not in the largest piece: (free - largest) / free.
    """

    allocator: str  # "glibc", "cuda:0"
    reserved_bytes: Count
    allocated_bytes: Count
    free_bytes: Count
    largest_free_bytes: Count | None
    inactive_split_bytes: Count | None = None  # free parts of blocks that are partly in use
    fix: str = ""  # what to do about it, a sentence; "": nothing needs to be done
    reused_bytes: Count = 0  # of the free ones: what the next step will take again

    @property
    def share(self) -> float | None:
        if self.largest_free_bytes is None or not self.free_bytes:
            return None
        return (self.free_bytes - self.largest_free_bytes) / self.free_bytes

    @property
    def scattered_bytes(self) -> int:
        """Free, in small pieces, and not waiting for the next step."""
        if self.largest_free_bytes is None:
            return 0
        return max(0, self.free_bytes - self.largest_free_bytes - self.reused_bytes)


class Coverage(NamedTuple):
    """What was seen against what the process really held, at the end of the step with the most."""

    rss_bytes: Count
    tensor_bytes: Count  # that were seen
    before_bytes: Count | None = (
        None  # RSS before the first step's tensors: Python, torch, libraries
    )
    mapped_bytes: Count | None = None  # files, libraries' code and shared memory that came since
    free_bytes: Count | None = None  # that libc's allocator keeps, and nobody uses
    python_bytes: Count | None = None  # the Python heap, where tracemalloc was on
    shared_bytes: Count | None = None  # of the RSS, shared with other processes
    pinned_bytes: Count | None = None

    @property
    def unexplained_bytes(self) -> int:
        parts = (self.before_bytes, self.mapped_bytes, self.free_bytes)
        known = self.tensor_bytes + sum(part for part in parts if part)
        return max(0, self.rss_bytes - known)


class Headroom(NamedTuple):
    """How far it is to the limit. `steps`: (low, likely, high) until memory runs out."""

    limit_bytes: Count
    limit: str  # what sets it: "cgroup", "RLIMIT_AS", "host", "cuda:0"
    used_bytes: Count  # at the last step, of what the limit counts
    bytes_per_step: float | None = None
    steps: tuple[Amount, Amount, Amount] | None = None  # None: it does not grow


class RefusedAllocation(NamedTuple):
    """An allocation that the system or the allocator refused."""

    bytes: Count
    step: int
    location: Location = Location()
    stack: tuple[Location, ...] = ()


class GcGeneration(NamedTuple):
    generation: int
    collections: Count
    total_ms: Amount
    longest_ms: Amount
    collected: Count
    uncollectable: Count


@dataclass(frozen=True, slots=True)
class GcUse:
    """Python's garbage collections. `share`: of the time of the loop."""

    generations: tuple[GcGeneration, ...] = ()
    share: Amount | None = None
    patterns: tuple[str, ...] = ()  # what is wrong with them, in sentences


class LineBytes(NamedTuple):
    """The Python heap by line (tracemalloc). grown_bytes: since the first look at it."""

    location: Location
    bytes: Count
    blocks: Count
    grown_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """All that is known about the memory of one process, or of another tool's file."""

    source: str  # "run", "cuda snapshot", "torch memory timeline"
    rank: Count = 0
    devices: tuple[DeviceMemory, ...] = ()
    growing: tuple[Growing, ...] = ()  # leaks first, then by bytes a step
    fragmentation: tuple[Fragmentation, ...] = ()
    coverage: Coverage | None = None
    headroom: Headroom | None = None
    refused: tuple[RefusedAllocation, ...] = ()
    gc: GcUse | None = None
    python_lines: tuple[LineBytes, ...] = ()
    sampled_steps: Count = 0  # looked at closely
    stack_share: Amount | None = None  # of the allocations, how many had their stack taken
    notes: tuple[str, ...] = ()  # what is missing or cannot be trusted, in sentences
    counts: Mapping[str, int] = field(default_factory=dict)  # wrong frees, dropped events, …
