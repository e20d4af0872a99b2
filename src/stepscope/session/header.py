"""What a recording process says about itself first (model/process.py)."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stepscope.redact import redact

__all__ = ["Moment", "process_header", "process_rank", "process_ranks"]

# Who tells a process its rank: torchrun, Slurm, Open MPI, MPICH and Intel MPI.
_RANK = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_WORLD_SIZE = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")


class Moment(NamedTuple):
    """A moment on two clocks: that of the events and that of the calendar."""

    monotonic_ns: int
    unix_ns: int

    @classmethod
    def now(cls) -> Moment:
        return cls(time.monotonic_ns(), time.time_ns())


def process_rank(environment: Mapping[str, str]) -> int:
    """The rank of this process; 0 where there are no ranks."""
    return _first_number(environment, _RANK, 0)


def process_ranks(environment: Mapping[str, str]) -> int:
    """How many ranks there are; 1 where there are none."""
    return _first_number(environment, _WORLD_SIZE, 1)


def process_header(
    environment: Mapping[str, str], argv: Sequence[str], core: str, began: Moment
) -> bytes:
    """The JSON of the HEADER frame."""
    fields = {
        "pid": os.getpid(),
        "parent_pid": os.getppid(),
        "rank": process_rank(environment),
        "world_size": process_ranks(environment),
        "host": os.uname().nodename,
        "role": "program",
        "argv": redact(argv),
        "python": sys.version.split()[0],
        "core": core,
        "monotonic_ns": began.monotonic_ns,
        "unix_ns": began.unix_ns,
        "extra": _versions(),
    }
    return json.dumps(fields).encode()


def _versions() -> dict[str, str]:
    """Of what else may make a run slower or faster, as far as the program has imported it."""
    version = getattr(sys.modules.get("torch"), "__version__", None)
    return {"torch": str(version)} if version else {}


def _first_number(environment: Mapping[str, str], variables: Sequence[str], default: int) -> int:
    for name in variables:
        text = environment.get(name, "")
        if text.isascii() and text.isdigit():
            return int(text)
    return default
