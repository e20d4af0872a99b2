"""Those who want to know what the manager and the engine do."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from stepscope.model.checkpoint_events import CheckpointEventType
from stepscope.record.recorder import Recorder

__all__ = ["Observer", "note_failure", "tell"]

# layer_id, what happened, duration_ns, bytes
Observer = Callable[[str, CheckpointEventType, int, int], None]


def tell(
    observers: Iterable[Observer],
    layer_id: str,
    happened: CheckpointEventType,
    duration_ns: int,
    size_bytes: int,
) -> None:
    """Never raises: an observer that fails is counted, and the program goes on."""
    for observer in tuple(observers):
        try:
            observer(layer_id, happened, duration_ns, size_bytes)
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            note_failure("an observer of checkpoints", error)


def note_failure(where: str, error: BaseException) -> None:
    """Recorded where a session records, counted in any case."""
    _recorder.failed(where, error)


_recorder = Recorder()
