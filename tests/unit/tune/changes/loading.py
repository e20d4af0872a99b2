"""What the tests of changes to data loading share."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from stepscope.collect.digest import digest
from stepscope.collect.loader import LoaderCollector
from stepscope.collect.workers import WorkersCollector
from stepscope.record.recorder import Recorder
from stepscope.record.twin import TwinCore
from stepscope.tune.injection import Injection, Site


class Heard:
    """A Told that remembers, also what workers tell."""

    def __init__(self) -> None:
        self._file = os.memfd_create("heard")  # one place in it for all processes

    def applied(self, what: str, site: Site | None = None) -> None:
        self._note("done", what, site)

    def refused(self, why: str, site: Site | None = None) -> None:
        self._note("not done", why, site)

    def failed(self, where: str, error: BaseException) -> None:
        self._note("error", f"{where}: {error!r}", None)

    def _note(self, kind: str, what: str, site: Site | None) -> None:
        os.write(self._file, (json.dumps([kind, what, site]) + "\n").encode())

    def _of(self, kind: str) -> list[tuple[str, Site | None]]:
        text = os.pread(self._file, 1 << 20, 0).decode()
        told = [json.loads(line) for line in text.splitlines()]
        return [(what, site and Site(*site)) for k, what, site in told if k == kind]

    @property
    def done(self) -> list[tuple[str, Site | None]]:
        return self._of("done")

    @property
    def not_done(self) -> list[tuple[str, Site | None]]:
        return self._of("not done")

    @property
    def errors(self) -> list[tuple[str, Site | None]]:
        return self._of("error")

    @property
    def why(self) -> str:
        """The reasons of all that was not done."""
        return "; ".join(why for why, _ in self.not_done)

    def __del__(self) -> None:
        os.close(self._file)


@contextmanager
def made(kind: type[Injection], settings: Mapping[str, Any] | None = None) -> Iterator[Heard]:
    """The change in this process, and what it told."""
    told = Heard()
    change = kind(settings or {}, told)
    change.install()
    try:
        yield told
        assert told.errors == []
    finally:
        change.undo()


@contextmanager
def watched() -> Iterator[None]:
    """Our collectors over the change, as they are in a run."""
    core: Any = TwinCore()
    collectors = [LoaderCollector(), WorkersCollector()]
    for collector in collectors:
        collector.start(Recorder(core))
    try:
        yield
    finally:
        for collector in reversed(collectors):
            collector.stop()


def epochs(make: Callable[[], Any], count: int = 2) -> list[list[bytes | None]]:
    """What a program sees of a loader: each batch to the bit, and the random numbers after each."""
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)
    loader = make()
    seen = []
    for _ in range(count):
        seen.append([digest(batch) for batch in loader])
        seen.append([digest([torch.rand(3), random.random(), np.random.rand()])])
    assert all(None not in one for one in seen)
    return seen
