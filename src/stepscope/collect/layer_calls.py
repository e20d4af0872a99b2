"""Times the module calls of one sampled step."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from stepscope.collect.chain import placed
from stepscope.collect.graph_nodes import can_mark, nodes_of
from stepscope.collect.layer_backward import LayerCall, Mark, set_backward_times
from stepscope.collect.saved_bytes import SavedBytes
from stepscope.collect.watch import Call
from stepscope.model import names
from stepscope.record.recorder import Recorder

__all__ = ["Look", "SampledCalls"]

MOST_CALLS = 2000  # of a step: with those of backward, half of what the recorder's ring can hold
MARK_NS = 900  # what a hook on a node costs where torch calls it; the clock inside sees the rest
_PASSED = -1

Table = Mapping[int, int]  # id of a module → number of the layer
Look = Callable[[Any, tuple[Any, ...], Any], None]  # shown module, arguments and result


def _weakly(result: Any) -> Callable[[], Any]:
    """Not to be kept alive by us: what a checkpoint saves is what is gone when it returns."""
    try:
        return weakref.ref(result)
    except TypeError:  # a tuple, None
        return lambda: result


def _nobody(_: Any) -> None:
    """Nobody wants to know."""


class SampledCalls:
    """From one step end to the next. `call` takes the place of the hook on module calls."""

    def __init__(self, recorder: Recorder, table_of: Callable[[Any], Table]) -> None:
        import torch

        self.calls: list[LayerCall] = []
        self.overflowed = False
        self.own_ns = 0
        self._marks: list[Mark] = []
        self._live = True
        self._marking = False
        self._current: LayerCall | None = None
        self._returned = _weakly(None)  # by the call that was left last
        self._table: Table = {}
        self._table_of = table_of
        self.look: Look | None = None  # who else wants to see the calls
        self.at: Callable[[int], None] = _nobody  # is told which layer is at work; 0: none
        self.entered: Callable[[tuple[Any, ...]], None] = _nobody  # shown what a model is given
        self._thread = threading.get_ident()
        self._now, self._failed, self._is_open = recorder.now_ns, recorder.failed, recorder.is_open
        self._backward = recorder.intern(names.BACKWARD)
        self._with_gradients = torch.is_grad_enabled
        self._can_mark, self._tensor = can_mark(torch), torch.Tensor
        self._saved = SavedBytes(torch)
        self.call = self._make_call()

    def close(self) -> None:
        """The step is over. Nodes that outlive it keep their hooks, which do nothing any more."""
        self._live = False
        self._returned = _weakly(None)
        self.own_ns += len(self._marks) * MARK_NS
        set_backward_times(self._marks)
        self._marks.clear()

    def backward_done(self) -> None:
        if not self._is_open(self._backward):  # else it was one inside another
            self._marks.append((self._now(), None, True))
            self.at(0)

    def _make_call(self) -> Call:
        now, failed = self._now, self._failed

        def call(
            original: Callable[..., Any], module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
        ) -> Any:
            began_ns = now()
            made: LayerCall | None = None
            try:
                made = self._enter(module, args, kwargs)
            except Exception as error:  # noqa: BLE001 - the border with the user's program
                failed(names.LAYER_FORWARD, error)
            if made is None:
                return original(module, *args, **kwargs)
            result = None
            made.start = now()
            try:
                result = original(module, *args, **kwargs)
                made.end = now()
                return result
            finally:
                try:
                    self._leave(made, began_ns, module, args, result)
                except Exception as error:  # noqa: BLE001
                    failed(names.LAYER_FORWARD, error)

        made: Call = placed(call)
        return made

    def _enter(
        self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> LayerCall | None:
        if not self._live or threading.get_ident() != self._thread:
            return None
        parent = self._current
        if parent is None:
            number = self._number_outermost(module)
        elif parent.number < 0:
            return None
        else:
            number = self._table.get(id(module), _PASSED)
            if number < 0:  # not the model's, or too deep: time of what called it
                return None
        made = self._current = LayerCall(number, parent)
        if number >= 0:
            given = (*args, *kwargs.values())
            self._mark(made, given, True, self._is_returned(given))
            if parent is None:
                self.entered((*args, *kwargs.values()))
            self.at(number)
        return made

    def _number_outermost(self, module: Any) -> int:
        # Recomputed in a backward, or evaluation.
        if self._is_open(self._backward) or not self._with_gradients():
            return _PASSED
        self._marking = self._can_mark()
        self._table = self._table_of(module)
        return self._table.get(id(module), _PASSED)

    def _leave(
        self, made: LayerCall, began_ns: int, module: Any, args: tuple[Any, ...], result: Any
    ) -> None:
        parent = self._current = made.parent
        ended_ns = made.end or self._now()
        self.at(max(parent.number, 0) if parent is not None else 0)
        made.lasted = ended_ns - made.start - made.own
        if made.number >= 0 and made.end:  # else an exception left it
            self._keep(made)
            if parent is not None:
                parent.inside += made.lasted
            self._mark(made, (result,), False, self._is_returned((result,)))
            self._returned = _weakly(result)
            if not module._modules and self._marking and self._with_gradients():
                saved = self._saved.of_call(module, args, result)
                made.saved = -1 if saved is None else saved
            if self.look is not None:
                self.look(module, args, result)
        own_ns = (made.start - began_ns) + (self._now() - ended_ns) + made.own
        if parent is not None:
            parent.own += own_ns
        else:
            self.own_ns += own_ns

    def _is_returned(self, values: tuple[Any, ...]) -> bool:
        """One of them is what the call before this one returned."""
        returned = self._returned()
        return returned is not None and any(one is returned for one in values)

    def _keep(self, made: LayerCall) -> None:
        if len(self.calls) < MOST_CALLS:
            self.calls.append(made)
        else:
            self.overflowed, self._live = True, False

    def _mark(self, made: LayerCall, values: tuple[Any, ...], ends: bool, is_others: bool) -> None:
        """Have autograd tell when it comes to what the call returned, or was given. `is_others`: a
        call before this one returned it, and that one's work it is."""
        if not self._marking or not self._with_gradients():
            return
        nodes = nodes_of(values, self._tensor)
        if nodes:
            now, append = self._now, self._marks.append

            around = made.parent.number if made.parent is not None else 0
            at = _nobody if is_others else self.at
            number = max(around, 0) if ends else made.number

            def passed(_: Any) -> None:
                if self._live:
                    append((now(), made, ends))
                    at(number)

            for node in nodes:
                node.register_prehook(passed)
