"""Module calls of sampled steps → `layer.forward` and `layer.backward` spans.

On those steps the hook on module calls, which is there anyway, goes through `SampledCalls`; on the
others nothing is different. Nothing is put on the modules: they are copied, pickled and compiled
as ever. What went through torch.compile is timed as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from stepscope.collect.hooking import HookingCollector
from stepscope.collect.layer_calls import SampledCalls, Table
from stepscope.collect.watch import Watch
from stepscope.model import names
from stepscope.record.recorder import Recorder

__all__ = ["LayersCollector"]

Below: TypeAlias = tuple[str, int, Any]  # path, depth, module
MOST_LAYERS = 4000  # names that we keep


class LayersCollector(HookingCollector):
    """Times every module call between `begin_step` and `end_step`."""

    name = "layers"

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch
        self.calls: SampledCalls | None = None  # of the step that is sampled, or was
        self._numbers: dict[tuple[int, str, str], int] = {}  # (outermost, path, class) → number
        self._told = 0
        self._depth = 1 << 30  # modules below it are not timed: there were too many calls
        self._deepest = 0

    def _install(self, recorder: Recorder) -> None:
        self._recorder = recorder
        intern = recorder.intern
        self._begin, self._end = intern(names.LAYERS_BEGIN), intern(names.LAYERS_END)
        self._layer = intern(names.LAYER)
        self._forward, self._backward = intern(names.LAYER_FORWARD), intern(names.LAYER_BACKWARD)
        self._saved = intern(names.LAYER_SAVED_BYTES)

    def _uninstall(self) -> None:
        self.drop_step()
        super()._uninstall()

    def begin_step(self) -> None:
        if not self._running:
            return
        self._recorder.mark(self._begin, len(self._numbers))
        self.calls = SampledCalls(self._recorder, self._table)
        self._watch.call = self.calls.call
        self._watch.backward_done = self.calls.backward_done

    def drop_step(self) -> None:
        self._watch.call = self._watch.backward_done = None
        if self.calls is not None:
            self.calls.close()

    def end_step(self) -> int:
        calls = self.calls
        self.drop_step()
        if calls is None:
            return 0
        began_ns = self._recorder.now_ns()
        if calls.overflowed:
            self._depth = max(min(self._depth, self._deepest) - 1, 0)
            return calls.own_ns
        self._tell(calls)
        own_ns = calls.own_ns + self._recorder.now_ns() - began_ns
        self._recorder.mark(self._end, own_ns)
        return own_ns

    def _tell(self, calls: SampledCalls) -> None:
        recorder = self._recorder
        for (root, path, kind), number in list(self._numbers.items())[self._told :]:
            text = f"{path}\t{kind}\t{root}" if root else f"\t{kind}\t{number}"
            recorder.mark(self._layer, number, recorder.intern(text))
        self._told = len(self._numbers)
        complete, forward, backward = recorder.complete, self._forward, self._backward
        sample, saved = recorder.sample, self._saved
        for call in calls.calls:
            complete(forward, call.start, call.lasted, call.number, float(call.inside))
            if call.saved >= 0:
                sample(saved, float(call.saved), call.number)
            if call.backward_start:
                lasted, inside = call.backward_lasted, float(call.backward_inside)
                complete(backward, call.backward_start, lasted, call.number, inside)

    def _table(self, module: Any) -> Table:
        """The layers of an outermost module by their ids; a shared one by its first path."""
        # Without parameters it is a loss or the like, of which there may be a new one each step.
        which = str(id(module)) if any(True for _ in module.parameters()) else ""
        root = self._number((0, which, type(module).__name__))
        table = {id(module): root} if root >= 0 else {}
        for path, depth, layer in _below(module, self._depth):
            self._deepest = max(self._deepest, depth)
            number = self._number((root, path, type(layer).__name__))
            if number >= 0:
                table[id(layer)] = number
        return table

    def _number(self, layer: tuple[int, str, str]) -> int:
        number = self._numbers.get(layer, -1)
        if number < 0 and len(self._numbers) < MOST_LAYERS:
            number = self._numbers[layer] = len(self._numbers) + 1
        return number


def _below(module: Any, levels: int) -> Iterator[Below]:
    """What `named_modules` gives, at a third of its cost: each module once, by its first path."""
    seen = {id(module)}
    todo = [("", 0, module)]
    while todo:
        path, depth, layer = todo.pop()
        if id(layer) not in seen:
            seen.add(id(layer))
            yield path, depth, layer
        elif depth:
            continue
        if depth < levels and layer._modules:
            for name, child in reversed(layer._modules.items()):
                if child is not None:
                    todo.append((f"{path}.{name}" if path else name, depth + 1, child))
