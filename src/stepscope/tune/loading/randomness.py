"""Whether something drew random numbers, seeding the generators and putting them back."""

from __future__ import annotations

import random
import sys
from typing import Any

from stepscope.tune.loading.state import held

__all__ = ["Generators"]


class Generators:
    """The states of all generators that a dataset can draw from: Python's, numpy's and torch's, and
    those that it holds itself."""

    def __init__(self, dataset: Any = None) -> None:
        self._own = [value for _, value in held(dataset) if _state(value) is not None]
        self._states = self._now()

    def drawn(self) -> bool:
        """Whether one of them is not in the state it was in."""
        return self._now() != self._states

    def seed(self, number: int) -> None:
        """All of them, with one number of 32 bits."""
        import torch

        random.seed(number)
        torch.default_generator.manual_seed(number)  # torch.manual_seed means all devices
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            numpy.random.seed(number)
        for generator in self._own:
            _seed(generator, number)

    def put_back(self) -> None:
        """As if nothing had been drawn since."""
        import torch

        random.setstate(self._states[0])
        torch.set_rng_state(_tensor(self._states[1]))
        numpy = sys.modules.get("numpy")
        if numpy is not None and self._states[2] is not None:
            kind, keys, *rest = self._states[2]
            numpy.random.set_state((kind, numpy.frombuffer(keys, dtype=numpy.uint32), *rest))
        for generator, state in zip(self._own, self._states[3:], strict=True):
            _set_state(generator, state)

    def _now(self) -> list[Any]:
        import torch

        numpy = sys.modules.get("numpy")
        legacy = None
        if numpy is not None:
            kind, keys, *rest = numpy.random.get_state()
            legacy = (kind, keys.tobytes(), *rest)
        own = [_state(generator) for generator in self._own]
        return [random.getstate(), _bytes(torch.get_rng_state()), legacy, *own]


def _state(value: Any) -> Any:
    """The state of a generator, comparable; None: it is none."""
    import torch

    if isinstance(value, random.Random):
        return value.getstate()
    if isinstance(value, torch.Generator):
        return _bytes(value.get_state())
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    if isinstance(value, numpy.random.RandomState):
        kind, keys, *rest = value.get_state()
        return (kind, keys.tobytes(), *rest)
    if isinstance(value, numpy.random.Generator):
        return _plain(value.bit_generator.state)
    return None


def _seed(generator: Any, number: int) -> None:
    import torch

    if isinstance(generator, torch.Generator):
        generator.manual_seed(number)
    elif hasattr(generator, "bit_generator"):
        bits = generator.bit_generator
        bits.state = type(bits)(number).state
    else:
        generator.seed(number)


def _set_state(generator: Any, state: Any) -> None:
    if isinstance(generator, random.Random):
        generator.setstate(state)
    elif hasattr(generator, "bit_generator"):
        generator.bit_generator.state = _arrays(state)
    elif isinstance(state, bytes):
        generator.set_state(_tensor(state))
    else:
        import numpy as np

        kind, keys, *rest = state
        generator.set_state((kind, np.frombuffer(keys, dtype=np.uint32), *rest))


def _bytes(state: Any) -> bytes:
    return bytes(state.numpy().data)


def _tensor(state: bytes) -> Any:
    import torch

    return torch.frombuffer(bytearray(state), dtype=torch.uint8)


def _plain(state: Any) -> Any:
    """numpy's states are dictionaries, with arrays in them for some generators."""
    if isinstance(state, dict):
        return {key: _plain(value) for key, value in state.items()}
    return (state.dtype.str, state.tobytes()) if hasattr(state, "tobytes") else state


def _arrays(state: Any) -> Any:
    import numpy as np

    if isinstance(state, dict):
        return {key: _arrays(value) for key, value in state.items()}
    if isinstance(state, tuple):
        return np.frombuffer(state[1], dtype=state[0])
    return state
