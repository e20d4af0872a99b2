"""What can happen to a checkpoint of activations."""

from __future__ import annotations

from enum import Enum

__all__ = ["CheckpointEventType"]


class CheckpointEventType(Enum):
    """CHECKPOINT: made. RECOMPUTE: computed again. RETRIEVE: had without computing. DEALLOCATE: let
    go."""

    CHECKPOINT = "checkpoint"
    RECOMPUTE = "recompute"
    RETRIEVE = "retrieve"
    DEALLOCATE = "deallocate"
