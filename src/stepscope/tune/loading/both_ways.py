"""Batches made at once by code of the user's that was meant for single samples: they are made both
ways until that has shown the same."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

from stepscope.tune.loading.closeness import BITS, how_close
from stepscope.tune.loading.feeds import is_default
from stepscope.tune.loading.randomness import Generators
from stepscope.tune.loading.stages import NOT_MADE, each_alone, length_of
from stepscope.tune.loading.verdict import Verdict

__all__ = ["AtOnce", "BothWays", "Way", "why_no_batches"]

_WAY, _MADE, _ROUNDED = 1, 2, 3  # places on the board: the way, from 1; batches; not to the bit
_COMPARED = 3  # batches that are made both ways before one is given
_AGAIN = 256  # one batch in so many is made both ways later


class Way(NamedTuple):
    """make: the batch of these indices, at once. check: raises where it must not be made like that,
    whatever comes out; asked before each comparison."""

    make: Callable[[list[int]], Any]
    check: Callable[[], None] = lambda: None


def why_no_batches(fetcher: Any, verb: str) -> str:
    """Why a fetcher makes no batches that could be made at once; "": it does. verb: what would be
    done with them."""
    from torch.utils.data._utils.fetch import _MapDatasetFetcher

    if type(fetcher) is not _MapDatasetFetcher or not fetcher.auto_collation:
        return f"there are no batches to {verb}"
    if not is_default(fetcher.collate_fn):
        return "its collate_fn is not torch's, and wants samples"
    if not each_alone(fetcher.dataset) or not length_of(fetcher.dataset):
        return "the dataset makes whole batches itself, or has no length"
    return ""


class AtOnce(ABC):
    """How a change makes batches at once, and its words for that.

    dataset: whose samples they are. ways: tried in turn; the first that gives the same is taken.
    may_round: equal up to rounding counts as the same. participle: of what is done to a batch.
    differs: why not, where the batches are not the same.
    """

    may_round: ClassVar[bool]
    participle: ClassVar[str]
    differs: ClassVar[str]

    def __init__(self, dataset: Any, ways: Sequence[Way]) -> None:
        self.dataset, self.ways = dataset, ways

    @abstractmethod
    def indices(self, index: Any) -> list[int] | None:
        """Those of a batch, as the ways take them; None: it is left to torch."""

    @abstractmethod
    def what(self, rounded: bool) -> str:
        """What is done, once it is. rounded: a batch was equal only up to rounding."""

    def why_failed(self, error: Exception) -> str:
        """Why not, where a way raised this before any batch of it was given."""
        return self.differs


class BothWays:
    """Batches of one iteration: made both ways until that has shown the same, and now and then
    after that. Refused for good when they differ, or samples are drawn at random."""

    def __init__(
        self, at_once: AtOnce, one_by_one: Callable[[Any], list[Any]], verdict: Verdict
    ) -> None:
        self._at_once, self._one_by_one, self._verdict = at_once, one_by_one, verdict
        self._first = True  # of this iteration: the program may have changed its dataset

    def __call__(self, index: Any) -> Any:
        indices = None if self._verdict.refused else self._at_once.indices(index)
        if indices is None:
            return NOT_MADE
        board = self._verdict.board
        board[_MADE] += 1
        if self._first or not self._verdict.applied or not board[_MADE] % _AGAIN:
            self._first = False
            return self._both_ways(index, indices)
        try:
            return self._at_once.ways[board[_WAY] - 1].make(indices)
        except Exception as error:  # noqa: BLE001 - the user's code, asked what it was not made for
            why = f"a batch could not be {self._at_once.participle} at once: {error}"
            self._verdict.refuse(why[:300])
            return NOT_MADE

    def _both_ways(self, index: Any, indices: list[int]) -> Any:
        from torch.utils.data import default_collate

        generators = Generators(self._at_once.dataset)
        samples = self._one_by_one(index)
        drawn = generators.drawn()
        # The program gets what it would have got, whatever comes of the comparison.
        batch = default_collate(samples)
        if drawn:
            self._verdict.refuse("its samples are drawn at random, each on its own")
        else:
            self._compare(batch, indices, generators)
        return batch

    def _compare(self, batch: Any, indices: list[int], generators: Generators) -> None:
        board, reason = self._verdict.board, ""
        for number, way in enumerate(self._at_once.ways, 1):
            if board[_WAY] not in (0, number):
                continue
            close = None
            try:
                way.check()
                close = how_close(way.make(indices), batch)
            except Exception as error:  # noqa: BLE001 - another way may do
                reason = reason or self._at_once.why_failed(error)
            finally:
                if generators.drawn():
                    generators.put_back()
            if close == BITS or (close is not None and self._at_once.may_round):
                board[_WAY] = number
                board[_ROUNDED] |= int(close != BITS)
                if board[_MADE] >= _COMPARED:
                    self._verdict.apply(self._at_once.what(bool(board[_ROUNDED])))
                return
        self._verdict.refuse(reason or self._at_once.differs)
