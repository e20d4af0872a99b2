"""Every step sampled, whatever it costs; and what was recorded, folded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from stepscope.analyze.fold import LoopFold
from stepscope.analyze.layers import LayerFold, LayersFound
from stepscope.collect.backward import BackwardCollector
from stepscope.collect.chain import keep_from_compiling
from stepscope.collect.forward import ForwardCollector
from stepscope.collect.sampled import Pace
from stepscope.collect.sampling import Sampling
from stepscope.collect.steps import StepsCollector
from stepscope.record.frames import HEADER, frame
from stepscope.record.recorder import Recorder
from stepscope.session.header import Moment, process_header
from stepscope.store.frames import FramesReader

ALWAYS = Pace(share=1e9, first=1, spread=0.0, most=1 << 30, gap=1)


class Sampled:
    """The hooks on steps, forwards and backwards with a sampling of our pace. As a collector."""

    name = "sampled"

    def __init__(self, pace: Pace | None = ALWAYS, level: str = "basic") -> None:
        self.sampling = Sampling(level, pace)
        watch = self.sampling.watch
        self._collectors = (
            StepsCollector(stepped=self.sampling.stepped),
            ForwardCollector(watch=watch),
            BackwardCollector(watch=watch),
            *self.sampling.collectors,
        )

    def start(self, recorder: Recorder) -> None:
        keep_from_compiling(recorder.failed)
        for collector in self._collectors:
            collector.start(recorder)

    def stop(self) -> None:
        for collector in reversed(self._collectors):
            collector.stop()


def train(
    model: torch.nn.Module, batch: Callable[[], tuple[Any, ...]], steps: int = 4
) -> list[float]:
    """The losses of a few steps."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        found = model(*batch())
        loss = (found[0] if isinstance(found, tuple) else found).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def folded(recorder: Recorder, path: Path) -> LayersFound:
    """What the fold makes of all that was recorded."""
    header = frame(HEADER, process_header({}, [], "python", Moment(0, 0)))
    path.write_bytes(header + recorder.drain())
    reader = FramesReader(path)
    layers = LayerFold()
    batches = list(reader.read_new())
    process = reader.process
    assert process is not None
    loop = LoopFold(process.rank, process.pid, 0)
    for batch in batches:
        loop.update(batch)
        layers.update(process, batch)
    found = loop.get()
    assert found is not None
    return layers.get([found])
