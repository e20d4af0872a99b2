from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from stepscope import BottleneckProfilerConfig
from stepscope.collect.loading import undisturbed
from stepscope.model.loading import DataLoadingProfile, LoadingFigures
from stepscope.model.optimization import StepCosts
from stepscope.session.optimizing_loading import OptimizedLoader, optimize_loader
from stepscope.tune.loader_search import LoaderSettings

CONFIG = BottleneckProfilerConfig()
FIGURES = LoadingFigures(workers=0, batches=10, wall_s=0.2, cpu_s=0.02, cpus=2.0)


class Numbers(Dataset[Any]):
    def __len__(self) -> int:
        return 64

    def __getitem__(self, at: int) -> Any:
        return torch.tensor([float(at)])


class Trials:
    """A loader that waits 20 ms for a batch; with workers it takes what `with_workers` says."""

    def __init__(self, with_workers: Callable[[LoaderSettings], float] | float = 0.005) -> None:
        self.with_workers, self.asked = with_workers, 0

    def look(self) -> DataLoadingProfile:
        return DataLoadingProfile(avg_batch_time=0.02, figures=FIGURES)

    def measure(self, settings: LoaderSettings) -> float:
        self.asked += 1
        if not settings.num_workers:
            return 0.02
        if callable(self.with_workers):
            return self.with_workers(settings)
        return self.with_workers


def optimized(loader: Any, trials: Any = None, step: StepCosts | None = None) -> OptimizedLoader:
    return optimize_loader(loader, CONFIG, step, trials or Trials())


def shuffled(dataset: Any = None) -> Any:
    return DataLoader(dataset or Numbers(), batch_size=4, shuffle=True)


def test_the_faster_loader_gives_the_same_batches_in_the_same_order() -> None:
    loader = shuffled()
    torch.manual_seed(7)
    before = torch.get_rng_state()
    made, record = optimized(loader)
    assert torch.equal(torch.get_rng_state(), before), "the program's random numbers are its own"
    assert record.kept, record.reason
    assert made is not loader
    assert made.num_workers > 0
    assert made.dataset is loader.dataset
    assert made.sampler is loader.sampler
    assert record.measured is not None
    assert record.measured.middle == pytest.approx(4.0)
    assert record.notes[0] == "the first 3 batches are the same to the bit"
    assert "measured alone" in record.notes[1]
    json.dumps(record.to_dict(), allow_nan=False)

    torch.manual_seed(7)
    ours = torch.cat(list(loader))
    torch.manual_seed(7)
    assert torch.equal(torch.cat(list(made)), ours)


def test_settings_that_are_no_faster_leave_the_loader_as_it_is() -> None:
    loader = shuffled()
    made, record = optimized(loader, Trials(0.02))
    assert made is loader
    assert not record.kept
    assert "it is the best" in record.reason
    assert len(record.tried) > 1


def test_a_gain_of_4_percent_is_not_worth_it() -> None:
    made, record = optimized(loader := shuffled(), Trials(0.02 / 1.04))
    assert made is loader
    assert "Too little to matter" in record.reason
    assert record.measured is not None


def test_a_gain_that_comes_and_goes_is_inconclusive() -> None:
    times_s = iter([0.01] * 6 + [0.01, 0.06, 0.02] * 9)
    made, record = optimized(loader := shuffled(), Trials(lambda settings: next(times_s)))
    assert made is loader
    assert "Inconclusive" in record.reason


def test_workers_that_do_not_work_are_not_chosen() -> None:
    made, record = optimized(loader := shuffled(), Trials(math.inf))
    assert made is loader
    assert None in record.tried.values()


def test_beside_a_step_that_takes_longer_nothing_is_gained_or_even_tried() -> None:
    trials = Trials()
    made, record = optimized(loader := shuffled(), trials, StepCosts(1.0, 1.0))
    assert made is loader
    assert "beside the step of training at best" in record.reason
    assert record.predicted is not None
    assert record.predicted < 1.05
    assert trials.asked == 0


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(range(64))


@pytest.mark.parametrize(
    ("loader", "words"),
    [
        ([1, 2, 3], "no DataLoader"),
        (DataLoader(Stream(), batch_size=4), "is iterable"),
        (DataLoader(Numbers(), batch_size=32), "2 batches: too few"),
    ],
)
def test_what_cannot_be_tuned_says_why(loader: Any, words: str) -> None:
    made, record = optimized(loader)
    assert made is loader
    assert words in record.reason


class Reading(Trials):
    """Looks at a real loader, in this process."""

    def __init__(self, loader: Any) -> None:
        super().__init__()
        self._loader = loader

    def look(self) -> DataLoadingProfile:
        with undisturbed(self._loader) as mine:
            next(iter(mine))
        return super().look()


def test_a_dataset_that_keeps_what_it_read_is_left_to_this_process() -> None:
    class Caching(Numbers):
        def __init__(self) -> None:
            self.cache: dict[int, Any] = {}

        def __getitem__(self, at: int) -> Any:
            return self.cache.setdefault(at, super().__getitem__(at))

    loader = shuffled(Caching())
    made, record = optimized(loader, Reading(loader))
    assert made is loader
    assert "changes the dataset (cache)" in record.reason


def test_a_dataset_with_a_generator_of_its_own_is_left_to_this_process() -> None:
    class Drawing(Numbers):
        def __init__(self) -> None:
            self.generator = torch.Generator().manual_seed(1)

        def __getitem__(self, at: int) -> Any:
            return torch.rand(1, generator=self.generator)

    loader = DataLoader(Drawing(), batch_size=4)
    state = loader.dataset.generator.get_state()
    made, record = optimized(loader, Reading(loader))
    assert made is loader
    assert "generator of its own" in record.reason
    assert torch.equal(loader.dataset.generator.get_state(), state)


def test_samples_that_are_drawn_may_be_drawn_in_the_workers() -> None:
    class Augmented(Numbers):
        def __getitem__(self, at: int) -> Any:
            return torch.rand(1) + at

    made, record = optimized(shuffled(Augmented()), step=StepCosts(0.001, 0.001))
    assert made.num_workers > 0
    assert record.notes == ("the same samples; what is random in them is drawn in the workers",)


def test_samples_that_are_others_in_a_worker_are_not_the_same() -> None:
    class Asking(Numbers):
        def __getitem__(self, at: int) -> Any:
            return torch.tensor([float(at) if get_worker_info() is None else -1.0])

    made, record = optimized(loader := shuffled(Asking()))
    assert made is loader
    assert "others with these settings" in record.reason


def test_an_error_on_the_way_leaves_the_loader_as_it_is() -> None:
    class Broken(Trials):
        def look(self) -> DataLoadingProfile:
            raise OSError("the disk is gone")

    made, record = optimized(loader := shuffled(), Broken())
    assert made is loader
    assert "OSError: the disk is gone" in record.reason


def test_whether_workers_should_stay_is_asked_where_starting_them_takes_long() -> None:
    class Short(Trials):
        def look(self) -> DataLoadingProfile:
            figures = FIGURES._replace(workers=1, children_cores=0.1, program_cores=0.0)
            return DataLoadingProfile(avg_batch_time=0.02, startup_seconds=1.0, figures=figures)

        def measure(self, settings: LoaderSettings) -> float:
            if not settings.num_workers:
                return 0.05
            return 0.005 if settings.persistent_workers else 0.02

    loader = DataLoader(Numbers(), batch_size=8, num_workers=1)
    made, record = optimized(loader, Short())
    assert record.kept, record.reason
    assert made.persistent_workers


def test_batches_that_take_too_long_to_try_are_left_to_tune() -> None:
    class Slow(Trials):
        def look(self) -> DataLoadingProfile:
            return DataLoadingProfile(avg_batch_time=2.0, figures=FIGURES)

    trials = Slow()
    made, record = optimized(loader := shuffled(), trials)
    assert made is loader
    assert trials.asked == 0
    assert "A batch takes 2.0 s" in record.reason
