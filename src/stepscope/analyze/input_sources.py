"""What blocked samples wait for: a disk that is read or written, a network, or something else."""

from __future__ import annotations

import re
from typing import NamedTuple

from stepscope.analyze.evidence import Evidence, matching_share
from stepscope.analyze.loader_facts import MAKING_SAMPLES
from stepscope.analyze.words import bytes_text, percent
from stepscope.model.details import FlameNode, Pipeline, StageTime
from stepscope.model.kinds import Signal
from stepscope.model.phases import Phase

__all__ = ["Source", "sample_source"]

# Of the standard library and of the usual clients: where code that waits for a network is found.
_NETWORK = re.compile(
    r"(^|[/\\])(socket|ssl|selectors|http|urllib\w*|requests|httpx|httpcore|aiohttp|botocore"
    r"|s3transfer|fsspec|s3fs|gcsfs|ftplib|paramiko|redis|psycopg\w*|pymysql|pymongo|grpc"
    r"|webdataset|huggingface_hub)([/\\.]|$)"
)


class Source(NamedTuple):
    """`cpu_ms`: what a batch computes for its sake, in the kernel or in the client's code: that
    goes with it. `did`: how a sentence about being blocked goes on."""

    kind: str
    separated: float  # from its rivals, 0 to 1
    did: str = ""
    evidence: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    cpu_ms: float = 0.0


def sample_source(evidence: Evidence, samples: StageTime, blocked_ms: float) -> Source:
    """`samples`: making those of a batch, blocked for that long."""
    pipeline = evidence.details.pipeline
    read = pipeline.read_bytes_per_batch if pipeline is not None else None
    if pipeline is None or read is None:
        unknown = "What it waits for was not measured: disk, network or another process."
        return Source("input-io", 0.0, missing=(unknown,))
    chars = pipeline.read_chars_per_batch
    did = f" and reads {bytes_text(read)} from a disk"
    if chars is None or not chars or read / chars >= Signal.DISK_PART_OF_READS:
        disk = _disk(pipeline, samples, read, blocked_ms)
        if disk is not None:
            return disk._replace(did=did)
    stacks = evidence.stacks("worker", *MAKING_SAMPLES)
    talking = matching_share(stacks or evidence.stacks("main", Phase.INPUT_WAIT), _talks)
    written = pipeline.write_bytes_per_batch or 0.0
    if talking < 0.5:  # else it writes what it got
        disk = _disk(pipeline, samples, written, blocked_ms)
        if disk is not None:
            return disk._replace(did=f" and writes {bytes_text(written)} to a disk")
    return _network(evidence, samples, blocked_ms, talking)._replace(did=did)


def _disk(pipeline: Pipeline, samples: StageTime, moved: float, blocked_ms: float) -> Source | None:
    """None: too little went to or came from it to be blocked by."""
    rate = moved * 1e3 / max(blocked_ms, 1e-9)
    if rate < Signal.DISK_BYTES_PER_BLOCKED_S:
        return None
    beyond = 1.0 - Signal.DISK_BYTES_PER_BLOCKED_S / rate
    cpu_ms = _kernel_ms(pipeline, samples, moved, blocked_ms)
    return Source("input-io", beyond, cpu_ms=cpu_ms)


def _kernel_ms(pipeline: Pipeline, samples: StageTime, moved: float, blocked_ms: float) -> float:
    """The kernel's own work on what is moved; more system time than that is for other things.

    It tells system from user time by its ticks, and in a thread that does other things too up to
    half of it goes astray: where nearly all of the time is the disk's, the rest is as well.
    """
    cpu_ms = samples.cpu_ms or 0.0
    system_ms = min(pipeline.system_ms_per_batch or 0.0, cpu_ms)
    system_ms = min(system_ms, moved * 1e3 / Signal.DISK_BYTES_PER_CPU_S)
    nearly_all = blocked_ms + system_ms >= Signal.DOMINANT * (blocked_ms + cpu_ms)
    return cpu_ms if nearly_all and 3 * system_ms >= cpu_ms else system_ms


def _network(evidence: Evidence, samples: StageTime, blocked_ms: float, talking: float) -> Source:
    """Blocked, and not by a disk. Functions that talk to a network, or traffic of the host, tell
    it from a lock or a sleep."""
    kind = "input-network"
    if talking:
        seen = f"{percent(talking)} of that time lies in functions that talk to a network."
        # What they compute goes with them, where they mostly wait: below a client that hands out
        # samples lies all the work on these.
        mostly = 2 * blocked_ms >= samples.wall_ms
        running_ms = samples.wall_ms - (samples.run_queue_ms or 0.0)
        client_ms = talking * running_ms - blocked_ms if mostly else 0.0
        return Source(kind, talking, evidence=(seen,), cpu_ms=max(0.0, client_ms))
    received = evidence.whole.resources.net_received_bytes_per_s
    if received is not None and received >= Signal.NETWORK_BYTES_PER_S:
        seen = f"The host received {bytes_text(received)}/s from the network."
        beyond = 1.0 - Signal.NETWORK_BYTES_PER_S / received
        return Source(kind, beyond, evidence=(seen,))
    unknown = "Whether it waits for a network, a lock or a sleep was not measured."
    return Source(kind, 0.0, missing=(unknown,))


def _talks(node: FlameNode) -> bool:
    return bool(_NETWORK.search(node.file))
