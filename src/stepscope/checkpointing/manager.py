"""CheckpointManager: parts of a model are computed again in backward instead of being kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from stepscope.checkpointing.choosing import Chosen, bare, choose, find, modules_by_name
from stepscope.checkpointing.engine import RecomputationEngine
from stepscope.checkpointing.engine_observers import Observer
from stepscope.checkpointing.policies import Recompute, contexts, named
from stepscope.checkpointing.registry import Registry
from stepscope.checkpointing.wrapping import Shared, Wrapping, wrap_module, wrap_runs
from stepscope.checkpointing.wrapping_call import Switch
from stepscope.errors import UsageError
from stepscope.model.checkpoint_plan import ALL, RECOMPUTED, CheckpointPlan, Segment
from stepscope.store.plan_file import read_plan, write_plan

__all__ = ["CheckpointManager"]


class CheckpointManager:
    """Checkpoints modules of a model with `torch.utils.checkpoint`, and puts them back.

        manager = CheckpointManager(model)
        manager.checkpoint("blocks.*", every=2)
        ...
        manager.remove()

    As a context manager it removes at the end what was applied. Gradients are those of the plain
    model to the bit, random numbers, autocast and running statistics included.

    It also holds checkpoints by hand (`register_checkpoint` and its like), for which it needs no
    model. `observers` are called with (layer_id, type, duration_ns, bytes) for these.
    """

    def __init__(self, model: Any = None, engine: RecomputationEngine | None = None) -> None:
        self._model = None if model is None else bare(_checked(model))
        self.engine = RecomputationEngine() if engine is None else engine
        self.observers: list[Observer] = []
        self._switch = Switch()
        self._registry = Registry(self.observers)
        self._wrappings: list[Wrapping] = []
        self._budget_bytes: int | None = None

    # ---- which modules ----

    def checkpoint(self, *names: str, every: int = 1, recompute: Recompute = ALL) -> Self:
        """Add modules by name or pattern, part by part (`encoder.*.mlp`: a star does not reach over
        a dot); of all that match, in the model's order, every n-th, from the first one on.

        recompute: "all"; "cheap", where the results of matrix products, convolutions and attention
        are kept; a policy as torch.utils.checkpoint's selective checkpoints take it; or a list of
        operators whose results are kept. A module that is checkpointed already takes the new one.
        """
        contexts(recompute)  # an error comes before anything is changed
        chosen = choose(self._required(), names, every, named(recompute))
        standing = {id(one.module): one for one in self._wrappings if _is_whole(one)}
        for segment, module in chosen:
            if id(module) in standing:
                standing[id(module)].parts[0].choose(recompute)
            else:
                self._wrappings.append(wrap_module(module, segment, recompute, self._shared))
        self._budget_bytes = None
        return self

    def apply(self, plan: CheckpointPlan) -> Self:
        """Checkpoint what the plan says, and nothing else any more."""
        for segment in plan.segments:
            if segment.recompute not in RECOMPUTED:
                raise UsageError(
                    f"{segment.label}: recompute={segment.recompute!r} is not possible in a plan."
                )
        found = find(self._required(), plan)
        self.remove()
        for one in found:
            if one.segment.first is None:
                self._wrappings.append(
                    wrap_module(one.module, one.segment, one.segment.recompute, self._shared)
                )
        for sequential, segments in _runs(found):
            self._wrappings.append(wrap_runs(sequential, segments, self._shared))
        self._budget_bytes = plan.budget_bytes
        return self

    def apply_file(self, path: str | Path) -> Self:
        """A plan as `stepscope plan` writes it."""
        return self.apply(read_plan(Path(path)))

    def save_file(self, path: str | Path) -> None:
        """What is applied now, as JSON, for `apply_file` and `stepscope run --plan`."""
        if Path(path).suffix == ".toml":
            raise UsageError(f"{path}: plans are written as JSON; end the name in .json.")
        for segment in self.plan.segments:
            if segment.recompute not in RECOMPUTED:
                raise UsageError(
                    f"{segment.label} has a policy of the program's: no file holds it."
                )
        write_plan(Path(path), self.plan)

    @property
    def plan(self) -> CheckpointPlan:
        """What is applied now, in the model's order; also while it is switched off."""
        if self._model is None:
            return CheckpointPlan(())
        order = {name: at for at, name in enumerate(modules_by_name(self._model))}
        segments = [part.segment for one in self._wrappings for part in one.parts]
        segments.sort(key=lambda one: (order.get(one.module, len(order)), one.first or 0))
        return CheckpointPlan(tuple(segments), self._budget_bytes)

    def remove(self) -> None:
        """Every forward as it was. Graphs that were made before still have their backward."""
        while self._wrappings:  # the last one first: they may stand on one another
            self._wrappings.pop().remove()
        self._budget_bytes = None

    def switch(self, on: bool) -> None:
        """Off: forwards run plainly from the next one on, until it is switched on again. Costs
        nothing, so that steps can take turns."""
        self._switch.on = bool(on)

    @property
    def is_on(self) -> bool:
        return self._switch.on

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Put the model back, and let go of the checkpoints that are held by hand."""
        self.remove()
        self.clear_checkpoints()

    @property
    def _shared(self) -> Shared:
        return Shared(self.engine, self._switch)

    def _required(self) -> Any:
        if self._model is None:
            raise UsageError("This CheckpointManager has no model: CheckpointManager(model).")
        return self._model

    # ---- by hand ----

    def register_checkpoint(self, layer_id: str, value: Any) -> None:
        """Hold a tensor, or tensors in tuples, lists and dicts; not copied. What was registered
        under this name before is let go."""
        self._registry.register(layer_id, value)

    def retrieve_checkpoint(self, layer_id: str) -> Any:
        """What was registered; UsageError where there is none."""
        return self._registry.retrieve(layer_id)

    def retrieve_or_recompute(self, layer_id: str, recompute: Callable[[], Any]) -> Any:
        """What was registered, or what `recompute` gives, which is not registered by this."""
        return self._registry.retrieve_or(
            layer_id, lambda: self.engine.recompute(layer_id, recompute)
        )

    def has_checkpoint(self, layer_id: str) -> bool:
        return self._registry.has(layer_id)

    def deallocate_checkpoint(self, layer_id: str) -> bool:
        """False: there was none."""
        return self._registry.deallocate(layer_id)

    def clear_checkpoints(self) -> None:
        self._registry.clear()

    @property
    def checkpoint_count(self) -> int:
        """Of those registered by hand."""
        return self._registry.count

    @property
    def memory_used_bytes(self) -> int:
        """Of those registered by hand, each storage counted once."""
        return self._registry.used_bytes

    @property
    def peak_memory_used_bytes(self) -> int:
        return self._registry.peak_bytes


def _checked(model: Any) -> Any:
    from torch.nn import Module

    if not isinstance(model, Module):
        raise UsageError(f"A model is a torch.nn.Module, not {type(model).__name__}.")
    return model


def _is_whole(wrapping: Wrapping) -> bool:
    return wrapping.parts[0].segment.first is None


def _runs(found: Iterable[Chosen]) -> list[tuple[Any, list[Segment]]]:
    """The runs of each Sequential."""
    by_module: dict[int, tuple[Any, list[Segment]]] = {}
    for segment, module in found:
        if segment.first is not None:
            by_module.setdefault(id(module), (module, []))[1].append(segment)
    return list(by_module.values())
