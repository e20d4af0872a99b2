"""A dataset in two: what it loads, and the transform that it sends that through.

Many a `__getitem__` loads something, gives it to `self.transform` and returns what came out beside
a label. Run with a transform that only notes what it is given, it gives the sample with a marker in
it, and what the transform would have had to work on.
"""

from __future__ import annotations

import threading
from typing import Any

from stepscope.tune.loading.records import MARKER
from stepscope.tune.loading.stages import chosen_from

__all__ = ["NotSplitError", "Split", "filled", "path_of"]

_HELD_AS = "transform"


class NotSplitError(Exception):
    """The dataset does something else with its transform."""


class Split:
    """NotSplitError: the dataset has no transform."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self._holder, _ = chosen_from(dataset)
        self._lock = threading.Lock()  # the transform is out of its place for a moment
        if not callable(self.transform):
            raise NotSplitError("the dataset holds no transform")

    @property
    def transform(self) -> Any:
        return getattr(self._holder, "__dict__", {}).get(_HELD_AS)

    def raw(self, index: Any) -> tuple[Any, Any]:
        """The sample with MARKER in it, and what is to be transformed.

        NotSplitError: the transform was not called once with one thing, or what it gave is worked
        on further.
        """
        noted: list[Any] = []
        mine, transform = threading.get_ident(), self.transform

        def note(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != mine:  # of the program, which asks for a sample too
                return transform(*args, **kwargs)
            if noted or len(args) != 1 or kwargs:
                raise NotSplitError("the transform is called more than once, or with more")
            noted.append(args[0])
            return MARKER

        with self._lock:
            own = vars(self._holder)
            kept = own[_HELD_AS]
            own[_HELD_AS] = note
            try:
                sample = self._dataset[index]
            except NotSplitError:
                raise
            except Exception as error:
                raise NotSplitError("what the transform gives is worked on further") from error
            finally:
                own[_HELD_AS] = kept
        if not noted or _marked(sample) != 1:
            raise NotSplitError("what the transform gives is not part of the sample")
        return sample, noted[0]


def _marked(sample: Any) -> int:
    if type(sample) in (list, tuple):
        return sum(_marked(one) for one in sample)
    if type(sample) is dict:
        return sum(_marked(one) for one in sample.values())
    return int(sample is MARKER)


def path_of(sample: Any) -> list[Any]:
    """The keys that lead to MARKER."""
    parts: list[tuple[Any, Any]] = []
    if type(sample) in (list, tuple):
        parts = [*enumerate(sample)]
    elif type(sample) is dict:
        parts = [*sample.items()]
    for key, one in parts:
        if _marked(one):
            return [key, *path_of(one)]
    return []


def filled(sample: Any, value: Any) -> Any:
    """The sample with `value` where MARKER stands."""
    if sample is MARKER:
        return value
    if type(sample) is dict:
        return {key: filled(one, value) for key, one in sample.items()}
    if type(sample) in (list, tuple):
        return type(sample)(filled(one, value) for one in sample)
    return sample
