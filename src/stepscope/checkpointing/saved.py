"""What each module call keeps for backward, and what its operators cost: one step, looked at with
torch's hooks on saved tensors and with a dispatch mode. Slow, so its times count as shares only."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple

from stepscope.checkpointing.calls import Call, CallWatch
from stepscope.checkpointing.meter import Meter
from stepscope.checkpointing.policies_kept import Keeping
from stepscope.checkpointing.tensors import tensors_in

__all__ = ["Kept", "Operator", "Reach", "SavedStep"]


class Kept(NamedTuple):
    """A tensor that autograd was given to keep."""

    storage: int
    bytes: int
    operators: int  # that had ended before


class Operator(NamedTuple):
    began: Any
    ended: Any
    is_dear: bool
    results: tuple[tuple[int, int], ...]  # storage, bytes: of those that it made
    decided_bytes: int = 0  # to keep what it decided by chance; 0: it decides nothing
    draws: bool = False  # it takes random numbers in another way


class Reach:
    """What a call spans: from its first entry of `kept` and of `operators` to its last."""

    __slots__ = ("inputs", "kept_from", "kept_to", "operators_from", "operators_to", "outputs")

    def __init__(self, kept_from: int, operators_from: int, inputs: dict[int, int]) -> None:
        self.kept_from = self.kept_to = kept_from
        self.operators_from = self.operators_to = operators_from
        self.inputs = inputs  # storage → bytes
        self.outputs: dict[int, int] = {}


class SavedStep:
    """From one step end to the next. `close` at its end."""

    def __init__(self, model: Any, modules: list[Any], meter: Meter, asked: Keeping) -> None:
        """asked: what a segment that is recomputed cheaply keeps."""
        self.kept: list[Kept] = []
        self.operators: list[Operator] = []
        self.reaches: list[Reach] = []
        self.from_outside: set[int] = set()  # storages that the model was given
        self._meter, self._asked = meter, asked
        self._numbers: dict[int, int] = {}  # address → number of the storage that is there now
        self._made = 0
        self._open: ExitStack | None = None
        # Held by the model: no plan frees them.
        self._held = {_address(one) for one in (*model.parameters(), *model.buffers())}
        self._watch = CallWatch(modules, self._enter, self._leave)

    @property
    def calls(self) -> list[Call]:
        return self._watch.calls

    def close(self) -> None:
        self._watch.remove()
        self._stop_looking()

    def end(self) -> None:
        """The step is over and whole. Raises what went wrong in it."""
        self.close()
        if self._watch.error is not None:
            raise self._watch.error

    def operator_ms(self, operator: Operator) -> float:
        return self._meter.ms(operator.began, operator.ended)

    # ---- calls ----

    def _enter(self, call: Call, given: tuple[Any, ...]) -> None:
        inputs = self._storages(given)
        if call.parent is None:
            self.from_outside.update(inputs)
            self._look()
        self.reaches.append(Reach(len(self.kept), len(self.operators), inputs))

    def _leave(self, call: Call, result: tuple[Any, ...]) -> None:
        reach = self.reaches[call.number]
        reach.kept_to, reach.operators_to = len(self.kept), len(self.operators)
        reach.outputs = self._storages(result)
        if call.parent is None:
            self._stop_looking()

    def _look(self) -> None:
        import torch

        self._stop_looking()  # a forward that an exception ended
        self._open = ExitStack()
        self._open.enter_context(torch.autograd.graph.saved_tensors_hooks(self._pack, _as_it_is))
        self._open.enter_context(_mode(self._meter.moment, self._ran))

    def _stop_looking(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    # ---- tensors ----

    def _pack(self, tensor: Any) -> Any:
        try:
            self._note_kept(tensor)
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            self._watch.error = self._watch.error or error
        return tensor

    def _note_kept(self, tensor: Any) -> None:
        address = _address(tensor)
        if address and address not in self._held:
            number = self._number(address)
            bytes_ = tensor.untyped_storage().nbytes()
            self.kept.append(Kept(number, bytes_, len(self.operators)))

    def _ran(self, *seen: Any) -> None:
        try:
            self._note_operator(*seen)
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            self._watch.error = self._watch.error or error

    def _note_operator(
        self, operator: Any, began: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> None:
        ended = self._meter.moment()
        addresses = {_address(one) for one in tensors_in((*args, *kwargs.values()))}
        made = []
        for tensor in tensors_in((result,)):
            address = _address(tensor)
            if address and address not in addresses:
                addresses.add(address)
                self._made += 1
                self._numbers[address] = self._made
                made.append((self._made, int(tensor.untyped_storage().nbytes())))
        asked = self._asked
        is_dear = asked.wanted(operator, args, kwargs)
        decided = int(result.numel()) if asked.decides(operator) else 0
        draws = not decided and not is_dear and asked.draws(operator, args, kwargs)
        self.operators.append(Operator(began, ended, is_dear, tuple(made), decided, draws))

    def _storages(self, values: tuple[Any, ...]) -> dict[int, int]:
        found = {}
        for tensor in tensors_in(values):
            address = _address(tensor)
            if address and address not in self._held:
                found[self._number(address)] = int(tensor.untyped_storage().nbytes())
        return found

    def _number(self, address: int) -> int:
        if address not in self._numbers:
            self._made += 1
            self._numbers[address] = self._made
        return self._numbers[address]


def _mode(now: Callable[[], Any], ran: Callable[..., None]) -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Operators(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            began = now()
            result = func(*args, **kwargs)
            ran(func, began, args, kwargs, result)
            return result

    return Operators()


def _address(tensor: Any) -> int:
    """0: it has no memory of its own to speak of (empty, meta, sparse)."""
    try:
        return int(tensor.untyped_storage().data_ptr())
    except (NotImplementedError, RuntimeError):
        return 0


def _as_it_is(tensor: Any) -> Any:
    return tensor
