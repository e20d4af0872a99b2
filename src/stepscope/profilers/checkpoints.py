"""CheckpointProfiler: what activation checkpointing costs and saves, layer by layer."""

from __future__ import annotations

import json
from typing import Any

from stepscope.errors import UsageError
from stepscope.model.checkpoint_events import CheckpointEvent, LayerProfile, ProfilingSummary
from stepscope.profilers.closing import Closing
from stepscope.session.checkpoint_analyses import Analysis
from stepscope.session.checkpoints import CheckpointSession, CheckpointUse, Observed

__all__ = ["CheckpointProfiler"]


class CheckpointProfiler(Closing):
    """Counts what happens to checkpoints between `start_profiling` and `stop_profiling`.

    checkpoint_manager: a CheckpointManager, recompute_engine: a RecomputationEngine. Every
    checkpoint of torch in the process is seen, theirs and those that the program makes by itself
    with torch.utils.checkpoint.

    `record_event(layer_id, event_type, duration_ms, memory_bytes=0)` tells of an event by hand, and
    takes some 0.1 µs; event_type: a member of CheckpointEventType, or any str for a type of your
    own. While nothing is profiled it does nothing. The bytes of a CHECKPOINT that was told by hand
    count as saved and as in use, until a DEALLOCATE of that layer tells of as many: nobody said
    which they are. Of real checkpoints both are measured.

    Counts and times are exact. Bytes are measured for all checkpoints of the first eight backward
    passes and for an eighth of those after; the others are taken to be as the last one of their
    layer. Single events are kept while they are few; of more than 1,024 of a layer and type every
    second is, of more than 2,048 every fourth, and so on. All methods may be called from any
    thread.
    """

    def __init__(self, checkpoint_manager: Observed, recompute_engine: Observed) -> None:
        _check("checkpoint_manager", checkpoint_manager, "CheckpointManager")
        _check("recompute_engine", recompute_engine, "RecomputationEngine")
        self._session = CheckpointSession(checkpoint_manager, recompute_engine)
        self.record_event = self._session.tally.record_event

    def start_profiling(self) -> None:
        """From nothing: what was counted before is forgotten. UsageError: it was closed."""
        self._session.start()

    def stop_profiling(self) -> None:
        """What was counted can still be asked for."""
        self._session.stop()

    def close(self) -> None:
        """Everything is forgotten, and nothing is counted any more. Again: nothing happens."""
        self._session.close()

    @property
    def is_profiling(self) -> bool:
        return self._session.is_profiling

    # ---- what was counted ----

    def get_layer_profile(self, layer_id: str) -> LayerProfile | None:
        """As it is now; None: there was no event of that layer."""
        return self._session.profiles().get(layer_id)

    def get_all_layer_profiles(self) -> dict[str, LayerProfile]:
        """By layer; a copy, as it is now."""
        return self._session.profiles()

    def get_summary(self) -> ProfilingSummary:
        """Of all events up to now, with the results of all analyses."""
        return self._session.summary()

    def generate_report(self) -> str:
        """The summary for people."""
        return str(self.get_summary())

    def export_to_json(self) -> str:
        """The summary as indented JSON."""
        return json.dumps(self.get_summary().as_json(), indent=2)

    def events(self) -> list[CheckpointEvent]:
        """Single events, newest last: at most the last 16,384 of those that were kept."""
        return self._session.events()

    # ---- plugins ----

    def add_analysis(self, name: str, function: Analysis) -> None:
        """Have `function(summary)` run with every summary; what it returns, any JSON value, is
        `summary.analyses[name]`. If it fails, that is a text which says so. Packages can offer
        analyses as entry points of the group `stepscope.checkpoint_analyses`."""
        self._session.analyses.add(name, function)

    # ---- for monitors ----

    def use(self) -> CheckpointUse:
        """What is in use now and what recomputing took so far, without the rest of a summary."""
        return self._session.use()


def _check(name: str, given: Any, wanted: str) -> None:
    if not isinstance(getattr(given, "observers", None), list):
        raise UsageError(f"{name}={given!r} is not possible: pass the {wanted} to profile.")
