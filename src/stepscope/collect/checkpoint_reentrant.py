"""Reentrant checkpoints: torch calls the function twice, without gradients and with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stepscope.collect.chain import hiding
from stepscope.collect.checkpoint_contexts import now_ns
from stepscope.collect.checkpoint_layers import is_managers
from stepscope.collect.saved_bytes import SavedBytes
from stepscope.model.own_code import hide_own_frames

if TYPE_CHECKING:
    from stepscope.collect.checkpoint_calls import CheckpointCall
    from stepscope.collect.checkpoints import CheckpointDoor

__all__ = ["Reentrant"]


class Reentrant:
    """Stands in front of `CheckpointFunction.apply`."""

    def __init__(self, door: CheckpointDoor, torch: Any) -> None:
        self._door, self._torch = door, torch

    def in_front_of(self, original: Callable[..., Any]) -> Callable[..., Any]:
        door, module = self._door, self._torch.nn.Module

        def apply(function: Any, *given: Any) -> Any:
            if door.is_passed_by(function):
                return original(function, *given)
            if door.shut and not is_managers(function, module):
                return function(*given[1:])  # without torch's own setting
            return original(self._followed(function, given), *given)

        return hiding(original, apply)

    def _followed(self, function: Any, given: tuple[Any, ...]) -> Any:
        """What torch is to call in the place of the function."""
        try:
            if self._door.is_heard:
                call = self._door.made(function, given[1:], {})
                return _Function(self._door, self._torch, call, function)
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            self._door.guard(error)
        return function


class _Function:
    """Lives as long as the graph that may need it."""

    def __init__(
        self, door: CheckpointDoor, torch: Any, call: CheckpointCall, function: Any
    ) -> None:
        self._door, self._torch, self._call, self._function = door, torch, call, function

    def __call__(self, *args: Any) -> Any:
        running = self._door.running
        again = bool(self._call.started_ns)
        if again:
            self._door.tell_recomputing(self._call)
        running.enter(again=again)
        started_ns = now_ns()
        try:
            result = self._function(*args)
            ended_ns = now_ns()
        except BaseException:
            hide_own_frames()
            raise
        finally:
            running.leave()
        try:
            self._tell(args, result, started_ns, ended_ns - started_ns)
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            self._door.guard(error)
        return result

    def _tell(self, args: tuple[Any, ...], result: Any, started_ns: int, duration_ns: int) -> None:
        call = self._call
        if not call.started_ns:
            call.started_ns = started_ns
            self._door.tell_checkpointed(call, duration_ns)
            return
        if call.wants_bytes and call.saved_bytes < 0:
            module = self._door.module_of(self._function)
            kept = SavedBytes(self._torch).of_block(module, args, result)
            call.saved_bytes = -1 if kept is None else kept
        self._door.tell_recomputed(call, duration_ns)

    def __del__(self) -> None:
        self._door.tell_released(self._call)
