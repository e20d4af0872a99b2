from __future__ import annotations

import math
import multiprocessing
import time
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from stepscope import BottleneckProfilerConfig
from stepscope.model.optimization import StepCosts
from stepscope.session.loader_trials import LoaderTrials, play_step
from stepscope.tune.loader_search import LoaderSettings

CONFIG = BottleneckProfilerConfig()


class Numbers(Dataset[Any]):
    def __init__(self, samples: int) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return self._samples

    def __getitem__(self, at: int) -> Any:
        return torch.tensor([at])


class Broken(Numbers):
    def __getitem__(self, at: int) -> Any:
        raise OSError("the disk is gone")


@pytest.mark.parametrize("samples", [4000, 40], ids=["long passes", "short passes"])
@pytest.mark.parametrize(
    "settings", [LoaderSettings(0), LoaderSettings(1, 2, persistent_workers=True)], ids=str
)
def test_a_setting_is_measured_and_leaves_no_trace(samples: int, settings: LoaderSettings) -> None:
    loader = DataLoader(Numbers(samples), batch_size=4, shuffle=True)
    torch.manual_seed(3)
    state, children = torch.get_rng_state(), set(multiprocessing.active_children())
    took_s = LoaderTrials(loader, None, CONFIG, trial_s=0.01).measure(settings)
    assert 0 < took_s < math.inf
    assert torch.equal(torch.get_rng_state(), state)
    assert set(multiprocessing.active_children()) <= children, "its workers have ended"
    assert loader.num_workers == 0


def test_a_dataset_that_fails_takes_for_ever() -> None:
    loader = DataLoader(Broken(40), batch_size=4)
    assert LoaderTrials(loader, None, CONFIG, 0.01).measure(LoaderSettings(0)) == math.inf


def test_settings_that_torch_refuses_take_for_ever() -> None:
    trials = LoaderTrials(DataLoader(Numbers(40), batch_size=4), None, CONFIG, 0.01)
    assert trials.measure(LoaderSettings(-1)) == math.inf


def test_a_look_tells_what_a_batch_costs() -> None:
    profile = LoaderTrials(DataLoader(Numbers(80), batch_size=4), None, CONFIG).look()
    assert profile.num_batches == 10
    assert profile.figures is not None
    assert profile.figures.workers == 0


def test_a_played_step_takes_the_cpu_time_of_a_real_one() -> None:
    with play_step(StepCosts(wall_s=0.01, cpu_s=0.02)) as step:
        own, everybody = time.thread_time(), time.process_time()
        step()
        assert time.thread_time() - own >= 0.01, "its own half"
        assert time.process_time() - everybody >= 0.02, "and that of a helper"


def test_without_a_step_there_is_nothing_to_play() -> None:
    with play_step(StepCosts(0.0, 0.0)) as step:
        step()
