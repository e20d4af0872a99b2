"""Layers, operators and traits from what was recorded on sampled steps."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Sequence
from statistics import median
from typing import Any, NamedTuple

from stepscope.analyze.loop import Loop
from stepscope.model import names
from stepscope.model.details import LayerTime, OpTime
from stepscope.model.event import Batch, Flag
from stepscope.model.op_log import AGAIN
from stepscope.model.process import ProcessInfo

__all__ = ["LayerFold", "LayersFound"]

NEIGHBOURS = 3  # steps on either side of a sampled one that it is compared with
_RATIOS = 1024  # of sampled steps to their neighbours, the newest
_OPTIMIZERS = 64
_WANTED = frozenset(
    (
        names.LAYERS_BEGIN, names.LAYERS_END, names.LAYER, names.LAYER_FORWARD,
        names.LAYER_BACKWARD, names.LAYER_SAVED_BYTES, names.OP, names.OP_LOGGED, names.TRAIT,
    )
)  # fmt: skip
_BAD = int(Flag.FAILED | Flag.OPEN)


class LayersFound(NamedTuple):
    """Layers and operators with the dearest first; what was not recorded is empty."""

    layers: tuple[LayerTime, ...] = ()
    layer_steps: int = 0
    ops: tuple[OpTime, ...] = ()
    op_steps: int = 0
    traits: dict[str, Any] = {}  # noqa: RUF012 - nobody writes to it
    logged: tuple[tuple[str, int], ...] = ()  # operators of one step: JSON, calls
    slowdown: float | None = None  # 1.05: sampled steps took 5 % longer than those around them


class _Times:
    """Sums over calls, in ns."""

    __slots__ = ("backward", "calls", "forward", "saved", "self_backward", "self_forward", "within")

    def __init__(self) -> None:
        self.calls = 0
        self.forward = self.self_forward = 0.0
        self.backward: float | None = None
        self.self_backward = 0.0
        self.saved: float | None = None
        self.within: float | None = None  # of `saved`, in modules within it

    def add(self, other: _Times) -> None:
        self.calls += other.calls
        self.forward += other.forward
        self.self_forward += other.self_forward
        self.self_backward += other.self_backward
        if other.backward is not None:
            self.backward = (self.backward or 0.0) + other.backward
        if other.saved is not None:
            self.saved = (self.saved or 0.0) + other.saved


class _Neighbours:
    """How much longer sampled steps take than those around them, by the steps of the optimizer
    that the sample began with."""

    def __init__(self) -> None:
        self._ends: dict[int, deque[int]] = {}  # of each optimizer, its last steps
        self._latest = 0
        self._open: tuple[int, int] | None = None  # optimizer, when the sampled step began
        self._watched: list[tuple[int, int, list[int]]] = []  # optimizer, lasted, others' times
        self.ratios: deque[float] = deque(maxlen=_RATIOS)

    def step(self, optimizer: int, end_ns: int) -> None:
        ends = self._ends.setdefault(optimizer, deque(maxlen=NEIGHBOURS + 1))
        if len(self._ends) > _OPTIMIZERS:
            del self._ends[next(iter(self._ends))]
        lasted_ns = end_ns - ends[-1] if ends else 0
        ends.append(end_ns)
        self._latest = optimizer
        if self._open is not None and self._open[0] == optimizer:
            before = [b - a for a, b in zip(list(ends)[:-2], list(ends)[1:-1], strict=True)]
            self._watched.append((optimizer, lasted_ns, before))
            self._open = None
            return
        for one in self._watched:
            if one[0] == optimizer:
                one[2].append(lasted_ns)
        full = [one for one in self._watched if len(one[2]) >= 2 * NEIGHBOURS]
        for one in full:
            self._judge(one)
            self._watched.remove(one)

    def begin(self, time_ns: int) -> None:
        self._open = (self._latest, time_ns)

    def _judge(self, one: tuple[int, int, list[int]]) -> None:
        if one[2] and median(one[2]) > 0:
            self.ratios.append(one[1] / median(one[2]))

    def get(self) -> float | None:
        """The middle of all, those with few neighbours included."""
        late = [one[1] / median(one[2]) for one in self._watched if one[2] and median(one[2]) > 0]
        ratios = [*self.ratios, *late]
        return median(ratios) if ratios else None


class _Process:
    """What one process told."""

    def __init__(self) -> None:
        self.names: dict[int, tuple[str, str, int]] = {}  # number → path, class, outermost
        self.layers: dict[int, _Times] = {}
        self.steps = 0
        self.ops: dict[str, tuple[int, int]] = {}  # name → self ns, calls
        self.op_steps = 0
        self.traits: dict[str, Any] = {}
        self.logged: dict[str, int] = {}
        self.neighbours = _Neighbours()
        self._step: dict[int, _Times] = {}  # of a sampled step that is not known to be whole

    def update(self, batch: Batch) -> None:
        if names.LAYERS_BEGIN not in batch.names.values() and not _has(batch, _WANTED):
            return
        for name, place in batch.places(_WANTED | {names.OPTIMIZER_STEP}):
            self._take(name, place, batch)

    def _take(self, name: str, place: int, batch: Batch) -> None:
        columns = batch.columns
        arg, time_ns = columns["arg"][place], columns["time_ns"][place]
        if name == names.OPTIMIZER_STEP:
            if not columns["flags"][place] & _BAD:
                self.neighbours.step(arg, time_ns + columns["duration_ns"][place])
        elif name == names.LAYERS_BEGIN:
            self._step = {}
            self.neighbours.begin(time_ns)
        elif name == names.LAYERS_END:
            self._commit()
        elif name in (names.LAYER_FORWARD, names.LAYER_BACKWARD, names.LAYER_SAVED_BYTES):
            duration_ns, value = columns["duration_ns"][place], columns["value"][place]
            self._add(name, arg, duration_ns, value)
        else:
            self._read(name, arg, batch.names.get(columns["text"][place], ""))

    def _add(self, name: str, number: int, duration_ns: int, value: float) -> None:
        times = self._step.setdefault(number, _Times())
        if name == names.LAYER_FORWARD:
            times.calls += 1
            times.forward += duration_ns
            times.self_forward += max(duration_ns - value, 0.0)
        elif name == names.LAYER_BACKWARD:
            times.backward = (times.backward or 0.0) + duration_ns
            times.self_backward += max(duration_ns - value, 0.0)
        else:
            times.saved = (times.saved or 0.0) + value

    def _commit(self) -> None:
        for number, times in self._step.items():
            self.layers.setdefault(number, _Times()).add(times)
        self.steps += 1
        self._step = {}

    def _read(self, name: str, arg: int, text: str) -> None:
        """A mark. One that cannot be read is passed over: it is from another version."""
        parts = text.split("\t")
        try:
            if name == names.LAYER:
                root = int(parts[2]) if len(parts) > 2 else 0
                self.names[arg] = (parts[0], parts[1], root)
            elif name == names.OP:
                self.ops[parts[0]] = (arg, int(parts[1]))
                self.op_steps = int(parts[2])
            elif name == names.OP_LOGGED:
                if text == AGAIN:
                    self.logged.clear()
                else:
                    self.logged[text] = arg
            else:
                self.traits[parts[0]] = json.loads(parts[1])
        except (IndexError, ValueError):
            return


class LayerFold:
    """`update` with every batch of every process; `get` at any time."""

    def __init__(self) -> None:
        self._processes: dict[tuple[int, int], _Process] = {}
        self._outside = _Process()

    def update(self, process: ProcessInfo, batch: Batch) -> None:
        key = (process.rank, process.pid)
        found = self._processes.get(key)
        if found is None:
            # A forked worker has all names of its parent: only what it tells itself counts.
            if next(batch.places(_WANTED), None) is None:
                return
            found = self._processes[key] = _Process()
        found.update(batch)

    def update_outside(self, batch: Batch) -> None:
        """Of the launcher: traits that were found after the program had ended."""
        if names.TRAIT in batch.names.values():
            self._outside.update(batch)

    def get(self, loops: Sequence[Loop]) -> LayersFound:
        """Those of the loop of the first rank that has some; traits of it, too."""
        for loop in sorted(loops, key=lambda loop: loop.rank):
            process = self._processes.get((loop.rank, loop.pid))
            if process is not None:
                return _found(process, loop, self._outside.traits)
        return LayersFound()


def _has(batch: Batch, wanted: frozenset[str]) -> bool:
    return not wanted.isdisjoint(batch.names.values())


def _found(process: _Process, loop: Loop, outside: dict[str, Any]) -> LayersFound:
    return LayersFound(
        layers=_layers(process),
        layer_steps=process.steps,
        ops=_ops(process, loop),
        op_steps=process.op_steps,
        traits=process.traits | outside,
        logged=tuple(process.logged.items()),
        slowdown=process.neighbours.get(),
    )


def _layers(process: _Process) -> tuple[LayerTime, ...]:
    prefixes = _prefixes(process)
    merged: dict[tuple[str, str], _Times] = {}
    for number, times in process.layers.items():
        path, kind, root = process.names.get(number, (f"#{number}", "", 0))
        path = ".".join(part for part in (prefixes.get(root, ""), path) if part)
        merged.setdefault((path, kind), _Times()).add(times)
    _add_up_saved(merged)
    made = [_layer(path, kind, times, process.steps) for (path, kind), times in merged.items()]
    return tuple(sorted(made, key=lambda one: (-(one.forward_ms + (one.backward_ms or 0.0)), one)))


def _add_up_saved(layers: dict[tuple[str, str], _Times]) -> None:
    """What a module keeps is what those within it keep: they are who was asked."""
    by_path = {path: times for (path, _), times in layers.items()}
    for path, times in [(p, t) for (p, _), t in layers.items() if t.saved is not None and p]:
        parts = path.split(".")
        for end in range(len(parts)):
            above = by_path.get(".".join(parts[:end]))
            if above is not None and above is not times:
                above.within = (above.within or 0.0) + (times.saved or 0.0)
    for times in layers.values():
        if times.within is not None:
            times.saved = (times.saved or 0.0) + times.within


def _prefixes(process: _Process) -> dict[int, str]:
    """What the paths of an outermost module begin with: nothing for the dearest, which is the
    model; its class for others (a loss, a second model)."""
    roots = {root: process.layers[root] for _, _, root in process.names.values()
             if root in process.layers}  # fmt: skip
    order = sorted(roots, key=lambda root: -roots[root].forward - (roots[root].backward or 0))
    prefixes = dict.fromkeys(order[:1], "")
    used: Counter[str] = Counter()
    for root in order[1:]:
        kind = process.names[root][1] if root in process.names else f"#{root}"
        used[kind] += 1
        prefixes[root] = kind if used[kind] == 1 else f"{kind}#{used[kind]}"
    return prefixes


def _layer(path: str, kind: str, times: _Times, steps: int) -> LayerTime:
    scale = 1e-6 / max(steps, 1)
    known = times.backward is not None
    return LayerTime(
        path=path,
        kind=kind,
        calls=times.calls / max(steps, 1),
        forward_ms=times.forward * scale,
        backward_ms=times.backward * scale if times.backward is not None else None,
        self_forward_ms=times.self_forward * scale,
        self_backward_ms=times.self_backward * scale if known else None,
        memory_bytes=times.saved / max(steps, 1) if times.saved is not None else None,
    )


def _ops(process: _Process, loop: Loop) -> tuple[OpTime, ...]:
    steps = max(process.op_steps, 1)
    # Against the usual step, not the profiled ones: these are dearer by what profiling took.
    step_ms = median(loop.durations_ns) / 1e6 if loop.durations_ns else 0.0
    made = [
        OpTime(name, calls / steps, ns / 1e6 / steps, ns / 1e6 / steps / step_ms if step_ms else 0)
        for name, (ns, calls) in process.ops.items()
    ]
    return tuple(sorted(made, key=lambda one: (-one.self_ms, one.name)))
