"""Run the operators of a logged step again, as they were and as they could be, and time both.

A program of its own, started when training is over: `python -m stepscope.collect.replay` reads a
request as JSON from stdin and writes each alternative that it has measured as a line of JSON to
stdout, so that whoever ends it early has those before. Its figures are those of this machine, with
the shapes, strides and numbers of threads of the program. Values are made up, but for how many of
them are subnormal.
"""

from __future__ import annotations

import contextlib
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stepscope.collect import replay_values as values
from stepscope.collect.replay_optimizer import optimizer_steps
from stepscope.collect.replay_values import Changed
from stepscope.model.op_log import is_partial, tensors

__all__ = ["Alternative", "main", "replay"]

ROUNDS = 40  # of one operator, at most
LEAST_ROUNDS = 3
SOFT_S = 3.0  # for all alternatives together, where every operator is measured

# In which operators a tensor of four dimensions has its channels second.
_IMAGES = ("convolution", "conv2d", "batch_norm", "group_norm", "pool2d", "upsample", "pixel_")
_COPIES = ("aten::clone", "aten::copy_", "aten::_to_copy", "aten::contiguous")
# Those that torch.autocast runs in the lower precision, and their backward.
_PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::convolution",
             "aten::convolution_backward", "aten::linear", "aten::matmul", "aten::mkldnn_linear",
             "aten::_scaled_dot_product", "aten::_flash_attention", "aten::einsum")  # fmt: skip
# Which of their arguments are parameters.
_WEIGHTS = {"aten::addmm": (0, 2), "aten::convolution": (1, 2), "aten::linear": (1, 2)}


@dataclass(frozen=True, slots=True)
class Alternative:
    """Milliseconds of a step, in the operators that the change touches: `ops` different ones."""

    now_ms: float
    then_ms: float
    ops: int
    dearest: str = ""  # the one that gains most
    failed: int = 0  # calls that were not run again: they could not be, or there was no time
    calls: int = 0  # of those that could


class _Op:
    """One logged operator."""

    def __init__(self, torch: Any, spec: Mapping[str, Any], count: int, autocast: str) -> None:
        self.name, self.count, self.autocast = str(spec["op"]), count, autocast
        self.spec = spec
        namespace, _, short = self.name.partition("::")
        if namespace != "aten" or not short.isidentifier():
            raise ValueError(self.name)
        packet = getattr(torch.ops.aten, short)
        self.function = getattr(packet, str(spec["overload"]) or "default")
        self.elements = sum(math.prod(tensor["shape"]) for tensor in tensors(spec))
        self._counts_values = _counts_values(torch, self.function, spec)

    def call(self, torch: Any, changed: Changed) -> Callable[[], Any]:
        if self._counts_values:
            raise ValueError("what it does depends on values that were not logged")
        args = [values.make(torch, one, changed) for one in self.spec["args"]]
        kwargs = {k: values.make(torch, one, changed) for k, one in self.spec["kwargs"].items()}
        function = self.function
        return lambda: function(*args, **kwargs)


def _counts_values(torch: Any, function: Any, spec: Mapping[str, Any]) -> bool:
    """Integers say how much there is to do, as in nonzero and repeat_interleave. An index says only
    where, and of masks the share that they select is known."""
    first = next(iter(tensors(spec["args"])), None)
    is_sized = torch.Tag.dynamic_output_shape in function.tags
    counted = first is not None and first["dtype"].startswith(("int", "uint"))
    return is_sized and counted and spec["op"] != "aten::index"


def replay(
    request: Mapping[str, Any], clock: Callable[[], float] = time.monotonic
) -> Iterator[dict[str, Any]]:
    """One {alternative: figures} after the other, in the order of "wanted".

    `request`: "ops" ([spec, count] each), "wanted" names, "threads", "autocast", "until_s" on the
    monotonic clock, and "complete": whether each operator is measured even when time is over.
    Without it the largest operators come first and those that time does not suffice for count as
    failed. "only_work" leaves what an operator takes beyond one with nothing to do, "nothing" is
    all of them: what the others are parts of.
    """
    import torch

    threads = max(1, int(request.get("threads") or 1))
    torch.manual_seed(0)
    ops = sorted(_known(torch, request), key=lambda op: -op.elements * op.count)
    complete = bool(request.get("complete"))
    until_s = clock() + SOFT_S if complete else float(request["until_s"])
    bench = _Bench(torch, ops, complete, clock)
    wanted = [name for name in request["wanted"] if name in (*_ALTERNATIVES, "fused_optimizer")]
    for place, name in enumerate(wanted):
        now_s = clock()
        bench.until_s = now_s + max(0.0, until_s - now_s) / (len(wanted) - place)
        if name == "fused_optimizer":
            if complete or now_s < until_s:
                yield {name: _fused(torch, request["optimizers"], bench.until_s - now_s)}
            continue
        # Whether subnormal numbers are flushed is each thread's own: of one alone we know it.
        torch.set_num_threads(1 if name == "flush_denormals" else threads)
        with torch.no_grad():
            one = bench.weigh(name)
            if one is not None and name == "only_work":
                one = replace(one, then_ms=max(0.0, one.now_ms - one.calls * _least_ms(torch)))
                one = replace(one, failed=one.failed + _after_the_budget(request["ops"]))
        if one is not None:
            yield {name: {key: getattr(one, key) for key in Alternative.__slots__}}


def _fused(torch: Any, optimizers: Sequence[Any], budget_s: float) -> dict[str, float]:
    """Of a step of all optimizers, in ms."""
    took = [_time(now, then, budget_s) for now, then in optimizer_steps(torch, optimizers)]
    now_s, then_s = (sum(one[place] for one in took) for place in (0, 1))
    return {"now_ms": now_s * 1e3, "then_ms": then_s * 1e3, "ops": len(took)}


def _after_the_budget(ops: Sequence[Any]) -> int:
    """Calls of a step that was logged in part: what they were is not known, but for how many of
    those before them were views."""
    described = sum(count for spec, count in ops if "op" in spec)
    views = sum(count for spec, count in ops if not spec)
    after = sum(count for spec, count in ops if is_partial(spec))
    return int(after * described / (described + views) if described else after)


def _least_ms(torch: Any) -> float:
    """What an operator takes that has next to nothing to do."""
    small = torch.ones(1)
    call = torch.ops.aten.relu.default
    return 1e3 * _time(lambda: call(small), None, 0.01)[0]


def _known(torch: Any, request: Mapping[str, Any]) -> Iterator[_Op]:
    autocast = str(request.get("autocast") or "")
    for spec, count in request["ops"]:
        with contextlib.suppress(AttributeError, KeyError, TypeError, ValueError):
            yield _Op(torch, spec, int(count), autocast)


class _Bench:
    """Measures alternatives of these operators, until its time is over."""

    def __init__(
        self, torch: Any, ops: Sequence[_Op], complete: bool, clock: Callable[[], float]
    ) -> None:
        self._torch, self._ops, self._complete, self._clock = torch, ops, complete, clock
        self.until_s = 0.0
        self._took_s: dict[int, float] = {}  # place of an operator as it was → its shortest time

    def weigh(self, name: str) -> Alternative | None:
        """None: nothing was measured, or not all of what has to be known as a whole."""
        make = _ALTERNATIVES[name]
        pairs = [
            (place, op, made)
            for place, op in enumerate(self._ops)
            if (made := make(self._torch, op)) is not None
        ]
        now = then = best_gain = 0.0
        failed = calls = ran = late = 0
        dearest = ""
        for number, (place, op, pair) in enumerate(pairs):
            left_s = self.until_s - self._clock()
            known_s = self._took_s.get(place) if make is _only_work else None
            if known_s is None and left_s <= 0 and not self._complete:
                late += op.count
                continue
            try:
                budget_s = max(left_s, 0.0) / (len(pairs) - number)
                took = self._time(pair, budget_s) if known_s is None else (known_s, 0.0)
            except Exception:  # noqa: BLE001 - made-up values do not suit every operator
                failed += op.count
                continue
            if name != "flush_denormals":  # it has another number of threads
                self._took_s[place] = min(took[0], self._took_s.get(place, math.inf))
            ran += 1
            calls += op.count
            now += took[0] * op.count
            then += took[1] * op.count
            if (took[0] - took[1]) * op.count > best_gain:
                best_gain, dearest = (took[0] - took[1]) * op.count, op.name
        if not now or (late and name == "nothing"):
            return None
        return Alternative(now * 1e3, then * 1e3, ran, dearest, failed + late, calls)

    @staticmethod
    def _time(pair: _Pair, budget_s: float) -> tuple[float, float]:
        before, after = pair
        return _time(before(), None if after is None else after(), budget_s)


def _time(
    before: Callable[[], Any], after: Callable[[], Any] | None, budget_s: float
) -> tuple[float, float]:
    """The shortest of each, taken in turns; (s, s). Without `after` it is saved altogether."""
    best = [math.inf, math.inf if after is not None else 0.0]
    end = time.perf_counter() + budget_s
    for number in range(ROUNDS):
        for place, call in enumerate((before, after)):
            if call is not None:
                began = time.perf_counter()
                call()
                best[place] = min(best[place], time.perf_counter() - began)
        if number + 1 >= LEAST_ROUNDS and time.perf_counter() > end:
            break
    return best[0], best[1]


_Pair = tuple[Callable[[], Callable[[], Any]], Callable[[], Callable[[], Any]] | None]


def _float32(torch: Any, op: _Op) -> _Pair | None:
    """float64 → float32, or what autocast makes of that; mere conversions are not needed."""
    if not values.uses(op.spec, "float64"):
        return None
    lower = op.autocast if op.autocast and op.name.startswith(_PRODUCTS) else "float32"
    single = Changed(dtypes={"float64": lower})
    if op.name == "aten::_to_copy" and values.uses(op.spec, "float32"):
        return lambda: op.call(torch, Changed()), None
    return lambda: op.call(torch, Changed()), lambda: op.call(torch, single)


def _bfloat16(torch: Any, op: _Op) -> _Pair | None:
    """As torch.autocast does it: products in bfloat16. In forward their weights are converted; the
    rest is what the operator before gave, in bfloat16 already."""
    if not op.name.startswith(_PRODUCTS) or not values.uses(op.spec, "float32"):
        return None
    half = Changed(dtypes={"float32": "bfloat16"})

    def after() -> Callable[[], Any]:
        call = op.call(torch, half)
        given = [
            values.make(torch, op.spec["args"][place], Changed())
            for place in _WEIGHTS.get(op.name, ())
            if isinstance(op.spec["args"][place], dict)
        ]

        def run() -> None:
            for tensor in given:
                tensor.to(torch.bfloat16)
            call()

        return run

    return lambda: op.call(torch, Changed()), after


def _channels_last(torch: Any, op: _Op) -> _Pair | None:
    """Images with their channels last; copies from one layout to the other are not needed."""
    if any(part in op.name for part in _IMAGES):
        last = Changed(channels_last=True)
        return lambda: op.call(torch, Changed()), lambda: op.call(torch, last)
    if op.name in _COPIES and values.moves_channels(op.spec):
        return lambda: op.call(torch, Changed()), None
    return None


def _no_subnormals(torch: Any, op: _Op) -> _Pair | None:
    """With values of a usual size in the place of subnormal ones."""
    if not values.has_subnormal(op.spec):
        return None
    usual = Changed(subnormal=False)
    return lambda: op.call(torch, Changed()), lambda: op.call(torch, usual)


def _flushed(torch: Any, op: _Op) -> _Pair | None:
    """With subnormal numbers taken as 0, by the kernels that let them be."""
    if not values.has_subnormal(op.spec):
        return None

    def run(flush: bool) -> Callable[[], Any]:
        call = op.call(torch, Changed())
        return lambda: (torch.set_flush_denormal(flush), call(), torch.set_flush_denormal(False))

    return lambda: run(False), lambda: run(True)


def _only_work(torch: Any, op: _Op) -> _Pair | None:
    """Without what any operator takes, however small: see `replay`."""
    return lambda: op.call(torch, Changed()), None


_ALTERNATIVES: dict[str, Callable[[Any, _Op], _Pair | None]] = {
    "float32": _float32,
    "bfloat16": _bfloat16,
    "channels_last": _channels_last,
    "no_subnormals": _no_subnormals,
    "flush_denormals": _flushed,
    "only_work": _only_work,
    "nothing": _only_work,
}


def main() -> int:
    for measured in replay(json.loads(sys.stdin.read())):
        sys.stdout.write(json.dumps(measured) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
