"""The engine behind a notebook cell: a block, and how it is shown under it."""

from __future__ import annotations

from typing import NamedTuple

from stepscope import config
from stepscope.config import Level
from stepscope.model.cell import Cell
from stepscope.session.blocks import BlockProfile

__all__ = ["CellProfile", "shown"]


class _Config(NamedTuple):
    """Sampled often: a cell that somebody waits for is short, and its memory is drawn."""

    level: Level = Level.COMPREHENSIVE
    max_samples: int = config.MAX_SAMPLES
    cpu_threshold: float = config.CPU_THRESHOLD_PERCENT
    memory_threshold: float = config.MEMORY_THRESHOLD_PERCENT
    gpu_threshold: float = config.GPU_THRESHOLD_PERCENT


class CellProfile:
    """From `open` to `close`, once."""

    def __init__(self, name: str) -> None:
        self._block = BlockProfile(name, _Config(), gpu=True)

    def open(self) -> None:
        self._block.open()

    def close(self, failed: type[BaseException] | None = None) -> Cell:
        """What the cell used and what was in its way."""
        from stepscope.analyze.cell import judge_cell

        metrics, found = self._block.close(failed)
        use, loop = self._block.use, self._block.summary
        assert use is not None
        assert loop is not None
        return judge_cell(use, metrics, loop, found, "" if failed is None else failed.__name__)


def shown(cell: Cell) -> dict[str, str]:
    """By MIME type: for notebooks and for terminals."""
    from stepscope.report.cell import as_html, as_text

    return {"text/html": as_html(cell), "text/plain": as_text(cell)}
