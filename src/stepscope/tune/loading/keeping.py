"""Samples that are made once and kept: whole, or up to the first transform that draws at random.

Nothing is believed. Whether making a sample draws random numbers is watched for the first ones, and
when samples come round again the first are made once more, and compared to the bit with what was
kept; so is one in every later iteration. No sample is made twice for the first comparison alone,
but where a dataset has to be taken apart (Split): that is checked against the dataset as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stepscope.collect.digest import digest
from stepscope.tune.loading.randomness import Generators
from stepscope.tune.loading.records import NotKeptError, encoded
from stepscope.tune.loading.sample_store import MISSING, SampleStore
from stepscope.tune.loading.split import NotSplitError, Split, filled
from stepscope.tune.loading.verdict import Verdict

__all__ = ["Kept"]

_WATCHED, _CHECKED, _PREFIX = 1, 2, 3  # places on the board; _PREFIX: 1 + how many transforms
_FIRST = 8  # samples that are watched, and compared


class Kept:
    """`get(index)` of a fetcher. copied: somebody but torch's collate sees the samples."""

    def __init__(self, dataset: Any, store: SampleStore, verdict: Verdict, *, copied: bool) -> None:
        self._dataset, self._store, self._verdict = dataset, store, verdict
        self._copied = copied
        self._check_next = True
        self._parts: _Parts | None = None

    def __call__(self, index: Any) -> Any:
        if self._verdict.refused or not _is_number(index) or not 0 <= index < self._store.count:
            return self._dataset[index]
        if self._verdict.board[_PREFIX]:
            return self._from_prefix(index)
        sample = self._store.get(int(index), copied=self._copied)
        if sample is MISSING:
            return self._made(index)
        return self._checked(sample, lambda: self._dataset[index])

    def _made(self, index: int) -> Any:
        board = self._verdict.board
        if board[_WATCHED] >= _FIRST:
            return self._put(index, self._dataset[index])
        board[_WATCHED] += 1
        generators = Generators(self._dataset)
        sample = self._dataset[index]
        if not generators.drawn():
            return self._put(index, sample)
        self._find_prefix(index, generators, sample)
        return sample

    def _put(self, index: int, sample: Any, *, images: bool = False) -> Any:
        try:
            self._store.put(int(index), sample, images=images)
        except OSError as error:
            self._store.close_to_more()
            self._verdict.refuse(f"there is no room for more samples: {error}")
        except Exception as error:  # noqa: BLE001 - a sample may be anything
            self._verdict.refuse(f"its samples cannot be kept: {error}"[:300])
        return sample

    def _checked(self, kept: Any, make: Callable[[], Any]) -> Any:
        """What was kept, or, now and then, the same made once more."""
        board = self._verdict.board
        if board[_CHECKED] >= _FIRST and not self._check_next:
            return kept
        self._check_next = False
        made = make()
        if not _same(made, kept):
            self._verdict.refuse("a sample is not the same when it is made again")
        else:
            board[_CHECKED] += 1
            if board[_CHECKED] >= _FIRST:
                self._verdict.apply(self._what())
        return made

    def _what(self) -> str:
        made = f"{self._store.kept} samples so far"
        if self._store.not_kept:
            made += ", as many as fit"
        count = self._verdict.board[_PREFIX]
        if not count:
            return f"samples are made once and kept ({made})"
        return f"samples are kept up to their first {count - 1} transforms ({made})"

    def _find_prefix(self, index: int, generators: Generators, sample: Any) -> None:
        """Random numbers were drawn: by a transform, as it may be, and not before it."""
        after = Generators(self._dataset)
        if self._store.kept:
            self._verdict.refuse("some of its samples are drawn at random")
            return
        generators.put_back()
        try:
            parts = _Parts(self._dataset)
            length = parts.deterministic(index)
            generators.put_back()
            same = digest(parts.sample(index, length)) == digest(sample)
            if not same or after.drawn():
                raise NotSplitError("its transforms, one by one, give something else")
            self._verdict.board[_PREFIX] = 1 + length
        except Exception as error:  # noqa: BLE001 - the user's code, asked what it was not made for
            self._verdict.refuse(f"its samples are drawn at random: {error}"[:300])
        finally:
            after.put_back()

    def _from_prefix(self, index: int) -> Any:
        if self._parts is None:
            self._parts = _Parts(self._dataset)
        parts, length = self._parts, self._verdict.board[_PREFIX] - 1
        kept = self._store.get(int(index))
        if kept is MISSING:
            return self._made_from_prefix(index, parts, length)
        found = self._checked(kept, lambda: self._again(parts, index, length))
        if found is None:
            return self._dataset[index]
        return filled(found[0], parts.rest(found[1], length))

    def _again(self, parts: _Parts, index: int, length: int) -> tuple[Any, Any] | None:
        try:
            return parts.prefix(index, length)
        except NotSplitError:
            return None  # which is not what was kept

    def _made_from_prefix(self, index: int, parts: _Parts, length: int) -> Any:
        board = self._verdict.board
        if board[_WATCHED] < _FIRST:
            board[_WATCHED] += 1
            return self._both_ways(index, parts, length)
        try:
            made = parts.prefix(index, length)
        except NotSplitError as error:
            self._verdict.refuse(str(error))
            return self._dataset[index]
        self._put(index, made, images=True)
        return filled(made[0], parts.rest(made[1], length))

    def _both_ways(self, index: int, parts: _Parts, length: int) -> Any:
        """The sample as the dataset makes it, after a look whether it is the same in parts."""
        before = Generators(self._dataset)
        sample = self._dataset[index]
        after = Generators(self._dataset)
        before.put_back()
        try:
            made = parts.prefix(index, length)
            if before.drawn():
                raise NotSplitError("what comes before its random transforms is drawn at random")
            self._put(index, made, images=True)
            kept = self._store.get(int(index))
            made = made if kept is MISSING else kept
            same = digest(filled(made[0], parts.rest(made[1], length))) == digest(sample)
            if not same or after.drawn():
                raise NotSplitError("its transforms, one by one, give something else")
        except Exception as error:  # noqa: BLE001 - the user's code, asked what it was not made for
            self._verdict.refuse(f"its samples are drawn at random: {error}"[:300])
        finally:
            after.put_back()
        return sample


def _is_number(index: Any) -> bool:
    """Python's or numpy's; whatever else a sampler gives is the dataset's business."""
    return type(index) is int or (
        hasattr(index, "__index__") and type(index).__module__ == "numpy" and not index.shape
    )


def _same(made: Any, kept: Any) -> bool:
    """To the bit, as they would be kept."""
    try:
        parts = [b"".join(encoded(one, images=True)) for one in (made, kept)]
    except NotKeptError:
        return False
    return parts[0] == parts[1]


class _Parts:
    """A dataset as what it loads and a row of transforms."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self._split = Split(dataset)

    @property
    def _transforms(self) -> Sequence[Callable[[Any], Any]]:
        transform = self._split.transform
        parts = getattr(transform, "__dict__", {}).get("transforms")
        return parts if type(parts) in (list, tuple) and parts else [transform]

    def deterministic(self, index: int) -> int:
        """How many transforms come before the first that draws. NotSplitError: it is drawn before
        any of them."""
        generators = Generators(self._dataset)
        _, value = self._split.raw(index)
        if generators.drawn():
            raise NotSplitError("random numbers are drawn before the transforms")
        for number, transform in enumerate(self._transforms):
            value = transform(value)
            if generators.drawn():
                return number
        raise NotSplitError("random numbers are drawn after the transforms")

    def prefix(self, index: int, length: int) -> tuple[Any, Any]:
        """The sample with MARKER in it, and what the first transforms made for its place."""
        sample, value = self._split.raw(index)
        for transform in self._transforms[:length]:
            value = transform(value)
        return sample, value

    def rest(self, value: Any, length: int) -> Any:
        for transform in self._transforms[length:]:
            value = transform(value)
        return value

    def sample(self, index: int, length: int) -> Any:
        sample, value = self.prefix(index, length)
        return filled(sample, self.rest(value, length))
