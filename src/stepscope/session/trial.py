"""A training process that is measured: seeded, its losses recorded, ended after enough steps."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from stepscope.collect.losses import LossCollector
from stepscope.collect.seeds import seed_everything
from stepscope.config import TrialWish
from stepscope.record.recorder import Recorder
from stepscope.session.header import process_rank, process_ranks

__all__ = ["TRIAL_ENDED", "trial_for"]

TRIAL_ENDED: Final = ".trial-ended"  # in the run folder: every step that was asked for is made


def trial_for(wish: str, run: Path, recorder: Recorder, leave: Callable[[], None]) -> _Trial:
    """wish: what ENV_TRIAL says. leave: writes what is pending."""
    return _Trial(TrialWish(**json.loads(wish)), run, recorder, leave)


class _Trial:
    """A Guide: counts the steps of the first optimizer, and ends the program when it has enough."""

    def __init__(
        self, wish: TrialWish, run: Path, recorder: Recorder, leave: Callable[[], None]
    ) -> None:
        self._wish, self._run, self._leave = wish, run, leave
        self._anchor: int | None = None
        self._steps = 0
        self._until_s = 0.0
        seed_everything()
        LossCollector().start(recorder)

    def seen(self, _: Any) -> None:
        """Nothing to do about a model."""

    def stepped(self, optimizer: Any) -> None:
        if self._anchor is None:
            self._anchor = id(optimizer)
            self._until_s = time.monotonic() + self._wish.seconds
        if id(optimizer) != self._anchor:
            return
        self._steps += 1
        if self._is_over():
            self._end()

    def _is_over(self) -> bool:
        wish = self._wish
        if wish.steps and self._steps >= wish.steps:
            return True
        if not wish.seconds or self._steps < wish.least_steps:
            return False
        return time.monotonic() >= self._until_s

    def _end(self) -> None:
        """Not the program's own way out: it would save and report a training that nobody wanted to
        its end. Other ranks would wait for one that is gone: the launcher ends them all."""
        self._leave()
        for stream in (sys.stdout, sys.stderr):
            try:
                if stream is not None:
                    stream.flush()
            except (OSError, ValueError):
                pass  # nobody reads it
        try:
            (self._run / f"{TRIAL_ENDED}-{process_rank(os.environ)}").touch(0o600)
        except OSError:
            pass  # the launcher sees the end of the process
        if process_ranks(os.environ) == 1:
            os._exit(0)
        while True:
            time.sleep(1.0)
