"""Facts about the program that no time tells → `trait` marks (model/traits.py).

Most are looked up once, after the first step; some on sampled steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepscope.collect import facts
from stepscope.collect.denormals import nobody_watches
from stepscope.collect.graph_nodes import tensors_of
from stepscope.collect.hooking import HookingCollector
from stepscope.collect.layers import LayersCollector
from stepscope.collect.sampled import Roots
from stepscope.collect.syncs import SyncCounter
from stepscope.collect.trait_marks import tell
from stepscope.model import names, traits
from stepscope.record.recorder import Recorder

__all__ = ["TraitsCollector"]

OPTIMIZERS_WITHIN = 8  # steps, in which each optimizer has come by
MOST_OPTIMIZERS = 64
LOOKS = 3  # sampled steps on which values and inputs are looked at


class TraitsCollector(HookingCollector):
    """`after_step` with every step's optimizer; `begin_step` and `end_step` around sampled ones."""

    name = "traits"

    def __init__(self, roots: Roots, layers: LayersCollector | None = None) -> None:
        super().__init__()
        self._roots = roots
        self._layers = layers
        self._steps = self._looks = 0
        self._optimizers: dict[int, Any] = {}  # until they are told
        self._told: dict[str, Any] = {}
        self._autocast: str | None = None
        self._channels_last: set[int] = set()

    def __reduce__(self) -> tuple[type[TraitsCollector], tuple[Roots]]:
        return TraitsCollector, (Roots(),)

    def _install(self, recorder: Recorder) -> None:
        import torch

        self._torch, self._recorder = torch, recorder
        self._sampled = recorder.intern(names.OWN_SAMPLED_NS)
        self._syncs = SyncCounter(recorder)
        self._can_look = nobody_watches

    def _uninstall(self) -> None:
        self.drop_step()
        super()._uninstall()

    # ---- once ----

    def after_step(self, optimizer: Any) -> None:
        """Never raises."""
        self._steps += 1
        if self._steps > OPTIMIZERS_WITHIN or not self._running:
            return
        try:
            if len(self._optimizers) < MOST_OPTIMIZERS:
                self._optimizers[id(optimizer)] = optimizer
            if self._steps == 1:
                self._tell_once()
            if self._steps in (1, OPTIMIZERS_WITHIN):
                found = facts.optimizer_facts(self._optimizers.values())
                self._tell(traits.OPTIMIZERS, found)
            if self._steps == OPTIMIZERS_WITHIN:
                self._optimizers.clear()  # the program may let go of them
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            self._recorder.failed(self.name, error)

    @property
    def is_eager(self) -> bool:
        """Known to run its operators one by one: nothing of it is compiled."""
        return self._told.get(traits.COMPILED) is False

    def _tell_once(self) -> None:
        torch, roots = self._torch, self._roots.modules()
        looked_up: dict[str, Callable[[], Any]] = {
            traits.DTYPES: lambda: facts.dtype_shares(roots),
            traits.CONV_LAYOUT: lambda: facts.conv_layout(torch, roots),
            traits.COMPILED: lambda: facts.is_compiled(roots),
            traits.THREADS: torch.get_num_threads,
            traits.INTEROP_THREADS: torch.get_num_interop_threads,
            traits.CPU_FEATURES: facts.cpu_features,
            traits.WORLD_SIZE: facts.world_size,
        }
        if self._can_look(torch):
            looked_up[traits.FLUSHES_DENORMALS] = lambda: facts.flushes_denormals(torch)
        for name, look_up in looked_up.items():
            try:
                self._tell(name, look_up())
            except Exception as error:  # noqa: BLE001 - the others can be told
                self._recorder.failed(f"trait {name}", error)

    def _tell(self, name: str, fact: Any) -> None:
        if name not in self._told or self._told[name] != fact:
            self._told[name] = fact
            tell(self._recorder, name, fact)

    # ---- on sampled steps ----

    def begin_step(self) -> None:
        if not self._running or self._looks >= LOOKS:
            return
        if self._layers is not None and self._layers.calls is not None:
            self._layers.calls.look = self._look
        self._syncs.begin()

    def drop_step(self) -> None:
        self._syncs.end()

    def end_step(self) -> int:
        self._syncs.end()
        if self._looks >= LOOKS or not self._running:
            return 0
        began_ns = self._recorder.now_ns()
        self._looks += 1
        self._tell(traits.ITEM_CALLS, self._syncs.count)
        self._tell(traits.AUTOCAST, self._autocast)
        roots = self._roots.modules()
        if self._channels_last:
            self._tell(
                traits.CONV_LAYOUT, facts.conv_layout(self._torch, roots, [*self._channels_last])
            )
        self._tell(traits.COMPILED, facts.is_compiled(roots))
        return self._recorder.now_ns() - began_ns

    def _look(self, module: Any, args: tuple[Any, ...], _: Any) -> None:
        """At each module call of the model, once it has returned."""
        torch = self._torch
        if self._autocast is None:
            for device in ("cpu", "cuda"):
                if torch.is_autocast_enabled(device):
                    dtype = torch.get_autocast_dtype(device)
                    self._autocast = str(dtype).removeprefix("torch.")
        if isinstance(module, torch.nn.modules.conv._ConvNd):
            for tensor in tensors_of(args[:1], torch.Tensor):
                if facts.is_channels_last(torch, tensor):
                    self._channels_last.add(id(module))
