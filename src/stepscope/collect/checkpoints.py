"""Sees every activation checkpoint of torch, whoever wrote it (decision 014).

A checkpoint that is not reentrant goes through one function of torch's, which takes two context
managers, for the forward and for its recomputation. Ours stand around the program's own. What the
forward would have kept is shown to the determinism check, which every tensor goes through.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, NamedTuple

from stepscope.collect.chain import Patches, hiding, keep_from_compiling
from stepscope.collect.checkpoint_calls import CheckpointCall, Listener
from stepscope.collect.checkpoint_contexts import Again, Forward, Running, now_ns
from stepscope.collect.checkpoint_layers import LayerNames, is_managers
from stepscope.collect.checkpoint_reentrant import Reentrant
from stepscope.collect.checkpoint_saved import Saved, only_kept_for_it, storages_bytes

__all__ = ["UNSEEN", "CheckpointCall", "CheckpointDoor", "Listener", "door"]

UNSEEN = "_stepscope_measures_itself"  # the name of functions that are no part of the program
_GENERATOR = "_checkpoint_without_reentrant_generator"
# Modules of torch's that have it by their own name.
_ALSO_THERE = ("torch.distributed._composable.checkpoint_activation",)
_CHECKS = "_allowed_determinism_checks_to_fns"
_OURS = "stepscope: "  # and the name of the check that the program asked for


class CheckpointDoor:
    """One a process. Stands in torch only while somebody listens or it is shut."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: tuple[Listener, ...] = ()
        self._shut = False
        self._patches = Patches()
        self._checks: dict[str, Any] | None = None  # torch's, while ours are among them
        self._stands = False
        self._names: LayerNames | None = None
        self.running = Running()
        self.counting_ns = 0  # that counting bytes took
        self.errors = 0  # of ours and of listeners, that were kept from the program
        self.failed: Callable[[str, BaseException], None] | None = None  # is told of these

    def add(self, listener: Listener) -> None:
        with self._lock:
            if listener not in self._listeners:
                self._listeners = (*self._listeners, listener)
            self._stand_or_leave()

    def remove(self, listener: Listener) -> None:
        with self._lock:
            self._listeners = tuple(one for one in self._listeners if one is not listener)
            self._stand_or_leave()

    @property
    def shut(self) -> bool:
        """While True, the program's own checkpoints run as plain calls and keep everything;
        functions with a `layer_id` (our manager's) are not affected."""
        return self._shut

    @shut.setter
    def shut(self, value: bool) -> None:
        with self._lock:
            self._shut = bool(value)
            self._stand_or_leave()

    @property
    def is_heard(self) -> bool:
        return bool(self._listeners)

    def module_of(self, function: Any) -> Any:
        """The one module that a checkpointed function calls, or None."""
        return self._names.module_of(function) if self._names is not None else None

    # ---- telling ----

    def tell_checkpointed(self, call: CheckpointCall, duration_ns: int) -> None:
        call.listeners = self._listeners
        for listener in call.listeners:
            self._guarded(listener.checkpointed, call, duration_ns)

    def tell_recomputing(self, call: CheckpointCall) -> None:
        for listener in self._who_knows(call):
            tell = getattr(listener, "recomputing", None)
            if tell is not None:
                self._guarded(tell, call)

    def tell_recomputed(self, call: CheckpointCall, duration_ns: int) -> None:
        call.recomputations += 1
        for listener in self._who_knows(call):
            self._guarded(listener.recomputed, call, duration_ns)

    def tell_released(self, call: CheckpointCall) -> None:
        for listener in self._who_knows(call):
            self._guarded(listener.released, call)

    def _who_knows(self, call: CheckpointCall) -> tuple[Listener, ...]:
        """Of those who were told of it, who listens still."""
        now = self._listeners
        return now if call.listeners is now else tuple(one for one in call.listeners if one in now)

    def guard(self, error: BaseException) -> None:
        self.errors += 1
        if self.failed is not None:
            self.failed("checkpoints", error)

    def _guarded(self, tell: Callable[..., None], *told: Any) -> None:
        try:
            tell(*told)
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            self.guard(error)

    # ---- standing in torch ----

    def _stand_or_leave(self) -> None:
        wanted = bool(self._listeners) or self._shut
        if wanted == self._stands:
            return
        self._stands = wanted
        if wanted:
            try:
                self._install()
            except Exception as error:  # noqa: BLE001 - another torch: nothing is seen
                self.guard(error)
        else:
            self._patches.undo()
            for name in [name for name in self._checks or () if name.startswith(_OURS)]:
                del (self._checks or {})[name]
            self._checks = None

    def _install(self) -> None:
        import torch
        import torch.utils.checkpoint as checkpointing
        from torch.multiprocessing.reductions import StorageWeakRef

        self._torch, self._home, self._weak = torch, checkpointing, StorageWeakRef
        if self._names is None:
            self._names = LayerNames(torch)
            keep_from_compiling(lambda _, error: self.guard(error))
        self._no_contexts = getattr(checkpointing, "noop_context_fn", None)
        self._stop = getattr(checkpointing, "_StopRecomputationError", ())
        self._is_traced = getattr(checkpointing, "_is_compiling", lambda *_: False)
        checks = getattr(checkpointing, _CHECKS, None)
        if isinstance(checks, dict):
            self._checks = checks
            for name, check in list(checks.items()):
                checks[_OURS + name] = self._counting(check)
        original = getattr(checkpointing, _GENERATOR, None)
        for owner in (checkpointing, *filter(None, map(sys.modules.get, _ALSO_THERE))):
            if getattr(owner, _GENERATOR, None) is original:
                self._patches.replace(owner, _GENERATOR, self._in_front_of)
        function = getattr(checkpointing, "CheckpointFunction", None)
        if function is not None:
            self._patches.replace(function, "apply", Reentrant(self, torch).in_front_of)

    def _counting(self, check: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """`check`, and what it is shown during a forward counts."""
        running = self.running

        def counting(tensor: Any) -> Any:
            saved = running.saved
            if saved is not None:
                began_ns = now_ns()
                try:
                    saved.add(tensor)
                except Exception as error:  # noqa: BLE001 - a tensor without a storage
                    self.guard(error)
                self.counting_ns += now_ns() - began_ns
            return check(tensor)

        return hiding(check, counting)

    def _in_front_of(self, original: Callable[..., Any]) -> Callable[..., Any]:
        settings = _Settings.of(original)
        if settings is None:
            return original

        def wrapper(function: Any, *given: Any, **more: Any) -> Any:
            if not self.is_passed_by(function):
                if self._shut and not is_managers(function, self._torch.nn.Module):
                    return _plain()
                try:
                    given = self._with_ours(settings, function, given, more)
                except Exception as error:  # noqa: BLE001 - the border with the user's program
                    self.guard(error)
            return original(function, *given, **more)

        return hiding(original, wrapper)

    def is_passed_by(self, function: Any) -> bool:
        """Without gradients nothing is recomputed; where it is compiled, it is the compiler's."""
        torch = self._torch
        try:
            return bool(
                (type(function) is FunctionType and function.__name__ == UNSEEN)
                or not torch.is_grad_enabled()
                or torch.compiler.is_compiling()
                or self._is_traced(function, (), {})
            )
        except Exception as error:  # noqa: BLE001 - another torch: nothing is seen
            self.guard(error)
            return True

    def made(self, function: Any, args: tuple[Any, ...], more: dict[str, Any]) -> CheckpointCall:
        assert self._names is not None
        layer = self._names.of(function)
        wants_bytes = any(getattr(one, "wants_bytes", True) for one in self._listeners)
        call = CheckpointCall(layer.name, layer.place, self.running.depth, wants_bytes)
        call.is_repeated = self.running.is_recomputing
        call.is_managed = is_managers(function, self._torch.nn.Module)
        if wants_bytes:
            call.kept_bytes = storages_bytes((*args, *more.values()), self._torch.Tensor)
        return call

    def _with_ours(
        self, at: _Settings, function: Any, given: tuple[Any, ...], more: dict[str, Any]
    ) -> tuple[Any, ...]:
        """The arguments that torch's function gets: with our contexts around the program's."""
        asked = getattr(self._home, "_checkpoint_debug_enabled", None)
        if not self._listeners or len(given) < at.others:
            return given
        if given[at.debug] if asked is None else asked:
            return given  # torch brings its own contexts, and takes no others
        theirs, check = given[at.context_fn], given[at.check]
        call = self.made(function, given[at.others :], more)
        saved = None
        if call.wants_bytes and f"{_OURS}{check}" in (self._checks or ()):
            given_bytes = only_kept_for_it(given[at.others :], self._torch.Tensor)
            saved, check = Saved(self._weak, given_bytes), f"{_OURS}{check}"
        new = list(given)
        new[at.context_fn] = functools.partial(self._contexts, theirs, call, saved, function)
        new[at.check] = check
        return tuple(new)

    def _contexts(
        self, theirs: Callable[[], Any], call: CheckpointCall, saved: Saved | None, function: Any
    ) -> tuple[Forward, Again]:
        # Most programs have none of their own: then nothing is entered for them.
        forward, again = (None, None) if theirs is self._no_contexts else theirs()
        ours = function if is_managers(function, self._torch.nn.Module) else None
        return Forward(self, call, saved, forward), Again(self, call, again, self._stop, ours)


class _Settings(NamedTuple):
    """Where they stand among the arguments after the function."""

    context_fn: int
    check: int
    debug: int
    others: int  # where the arguments of the function begin

    @classmethod
    def of(cls, original: Callable[..., Any]) -> _Settings | None:
        """None: a torch that we do not know."""
        found = inspect.signature(original).parameters.values()
        names = [one.name for one in found if one.kind is one.POSITIONAL_OR_KEYWORD][1:]
        if not {"context_fn", "determinism_check", "debug"} <= set(names):
            return None
        at = names.index
        return cls(at("context_fn"), at("determinism_check"), at("debug"), len(names))


def _plain() -> Iterator[None]:
    """What torch's generator does around the function, where nothing is to be done."""
    yield


_door = CheckpointDoor()


def door() -> CheckpointDoor:
    """The one of this process."""
    return _door
