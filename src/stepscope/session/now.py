"""What is asked for at this moment, without a recording."""

from __future__ import annotations

from stepscope.collect.gpu import gpu_memory_share
from stepscope.collect.own_memory import rss_bytes
from stepscope.record.core import core

__all__ = ["Nothing", "gpu_memory_share", "nothing", "rss_bytes"]

Nothing = core.Nothing
nothing = core.nothing  # called, entered and left at next to no cost, and it does nothing
