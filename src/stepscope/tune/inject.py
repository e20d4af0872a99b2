"""Makes the changes that ENV_APPLY names in this process, once torch is there."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from stepscope.model.change import Change
from stepscope.tune.changes import injection_class
from stepscope.tune.injection import Injection, Teller

__all__ = ["Injections", "injections_for"]

Failed = Callable[[str, BaseException], None]


class Injections:
    """The changes of a program, as one Guide (collect/sampling.py)."""

    def __init__(self, made: Sequence[Injection]) -> None:
        self._made = made

    def install(self) -> None:
        self._each("installing it", lambda one: one.install())

    def seen(self, module: Any) -> None:
        self._each("at the model's first call", lambda one: one.seen(module))

    def stepped(self, optimizer: Any) -> None:
        for one in self._stepping:
            try:
                one.stepped(optimizer)
            except Exception as error:  # noqa: BLE001 - the border with the user's program
                one.told.failed("after a step", error)

    def finish(self) -> None:
        self._each("finishing", lambda one: one.finish())

    @property
    def _stepping(self) -> list[Injection]:
        return [one for one in self._made if type(one).stepped is not Injection.stepped]

    def _each(self, what: str, do: Callable[[Injection], None]) -> None:
        for one in self._made:
            try:
                do(one)
            except Exception as error:  # noqa: BLE001 - the border with the user's program
                one.told.failed(what, error)


def injections_for(text: str, run: Path, failed: Failed) -> Injections:
    """text: what ENV_APPLY says, a list of changes in JSON."""
    made = []
    for saved in json.loads(text):
        change = Change.from_dict(saved)
        told = Teller(run, change.name, failed)
        try:
            made.append(injection_class(change.name)(change.settings, told))
        except Exception as error:  # noqa: BLE001 - the border with the user's program
            told.failed("making it", error)
    return Injections(made)
