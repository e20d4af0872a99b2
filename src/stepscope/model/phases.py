"""Where the time of a step can go. The phases of a step add up to its wall clock."""

from __future__ import annotations

import enum

from stepscope.model import names

__all__ = ["PHASE_OF_SPAN", "Phase"]


class Phase(enum.StrEnum):
    INPUT_WAIT = "input wait"
    TRANSFER = "transfer"
    FORWARD = "forward"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"
    EVALUATION = "evaluation"
    CHECKPOINT_SAVE = "checkpoint save"
    GC = "gc"
    PYTHON_BETWEEN = "python between"
    PROFILING = "profiling"  # stepscope's own closer looks, where they take long
    UNEXPLAINED = "unexplained"


PHASE_OF_SPAN: dict[str, Phase] = {
    names.INPUT_ITER: Phase.INPUT_WAIT,
    names.INPUT_NEXT: Phase.INPUT_WAIT,
    names.TRANSFER: Phase.TRANSFER,
    names.FORWARD: Phase.FORWARD,
    names.BACKWARD: Phase.BACKWARD,
    names.OPTIMIZER_STEP: Phase.OPTIMIZER,
    names.OPTIMIZER_SCALE: Phase.OPTIMIZER,
    names.OPTIMIZER_ZERO: Phase.OPTIMIZER,
    names.OPTIMIZER_CLIP: Phase.OPTIMIZER,
    names.SAVE: Phase.CHECKPOINT_SAVE,
    names.GC: Phase.GC,
    names.OWN_LOOK: Phase.PROFILING,
}
