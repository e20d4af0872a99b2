"""DataLoadingProfiler: how fast a loader can be, what limits it, and which settings are best."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from stepscope.errors import NoResultsError, UsageError
from stepscope.model.finding import Finding
from stepscope.model.loading import DataLoadingProfile, PreprocessingProfile
from stepscope.profilers.bottleneck_config import AnyConfig, Configured
from stepscope.profilers.config import checked_number
from stepscope.profilers.preprocessing import PreprocessingProfiler
from stepscope.session.loading import best_profile, make_loader, profile_loader
from stepscope.session.written import ReportPaths, write_loading

__all__ = ["DataLoadingProfiler"]

_logger = logging.getLogger("stepscope")


class DataLoadingProfiler(Configured):
    """Iterates loaders by themselves, with nobody using the batches.

    The program's random numbers, and the order of its data, stay as if it had not been there; a
    dataset that counts or consumes what it gives does notice.

    The source document differs in these points, and this is what was built instead: it calls any
    batch over 100 ms a slow disk, and any process over 1 GB memory pressure (here: what those who
    make the batches did meanwhile: computed, waited for a CPU, for a disk, for something else);
    it compares batches a second of different sizes and adds weights that nobody measured (here: the
    score is samples a second); it counts the start of the workers as throughput (here: apart);
    it sets prefetch_factor without workers, which torch refuses.
    """

    def __init__(self, config: AnyConfig | None = None) -> None:
        super().__init__(config)
        self._preprocessing = PreprocessingProfiler(self._given)
        self.profiles: list[DataLoadingProfile] = []
        self.preprocessing_profiles: list[PreprocessingProfile] = []
        self.failed_configurations: list[tuple[int, int, str]] = []
        self._findings: list[Finding] = []

    def profile_data_loader(
        self, data_loader: Iterable[Any], num_batches: int = 10, step_time: float | None = None
    ) -> DataLoadingProfile:
        """How fast it delivers, over at least `num_batches` batches after those that start it.

        step_time: seconds that training takes for a batch, beside loading it. With it, bottlenecks
            are those that training would wait for; without it, what limits the loader itself.
        """
        _whole("num_batches", num_batches)
        if step_time is not None:
            checked_number("step_time", step_time, -math.inf, math.inf, "a number of seconds")
        if not self.config.enabled:
            return DataLoadingProfile(notes=("Profiling is switched off: nothing was measured.",))
        if not hasattr(data_loader, "__iter__"):
            raise UsageError(f"A loader is something to iterate over, not {data_loader!r}.")
        profile = profile_loader(data_loader, num_batches, self.config, step_time)
        self.profiles.append(profile)
        self._findings += profile.findings
        return profile

    profile_dataloader = profile_data_loader

    def profile_preprocessing(
        self, preprocessing_func: Callable[[Any], Any], data: Any, num_iterations: int = 10
    ) -> PreprocessingProfile:
        """What a function takes on this data."""
        profile = self._preprocessing.profile_preprocessing_function(
            preprocessing_func, data, num_iterations
        )
        self.preprocessing_profiles.append(profile)
        self._findings += profile.findings
        return profile

    def profile_configuration_range(
        self,
        dataset: Any,
        batch_sizes: Sequence[int] | None = None,
        worker_counts: Sequence[int] | None = None,
        num_batches: int = 5,
    ) -> list[DataLoadingProfile]:
        """Every combination; one that fails is logged and kept in `failed_configurations`.

        They run one after another: what the first ones read from a disk, the later ones find in
        memory. Where that matters, read the data once before.
        """
        sizes = self.config.batch_size_range if batch_sizes is None else batch_sizes
        counts = self.config.worker_range if worker_counts is None else worker_counts
        found = []
        for batch_size in sizes:
            for workers in counts:
                try:
                    loader = make_loader(dataset, batch_size, workers)
                    found.append(self.profile_data_loader(loader, num_batches))
                except Exception as error:  # noqa: BLE001 - the dataset is the user's
                    self.failed_configurations.append((batch_size, workers, repr(error)))
                    _logger.warning(
                        "Failed to profile batch_size=%s, workers=%s: %r",
                        batch_size,
                        workers,
                        error,
                    )
        return found

    def get_best_configuration(
        self, profiles: Sequence[DataLoadingProfile] | None = None
    ) -> DataLoadingProfile:
        """Of these, or of all that were profiled: the one with most samples a second; among those
        within 3 % of it, the one with fewest workers, then with least memory."""
        candidates = [one for one in (self.profiles if profiles is None else profiles) if one.score]
        if not candidates:
            raise NoResultsError("No loader was profiled yet: call profile_data_loader() first.")
        return best_profile(candidates)

    def calculate_profile_score(self, profile: DataLoadingProfile) -> float:
        """Samples a second: what training gets out of it."""
        return profile.score

    def get_bottlenecks(self) -> list[Finding]:
        """Of everything that was profiled, the worst first; [] for nothing."""
        if not self.config.enabled:
            return []
        if not self.profiles and not self.preprocessing_profiles:
            raise NoResultsError("Nothing was profiled yet: call profile_dataloader() first.")
        return sorted(self._findings, key=lambda one: -one.severity)

    def generate_report(self, output_path: str | Path | None = None) -> ReportPaths:
        """Write what was profiled as Markdown and JSON into a folder; where they lie."""
        if not self.profiles and not self.preprocessing_profiles:
            raise NoResultsError("Nothing was profiled yet: call profile_dataloader() first.")
        folder = self.config.folder if output_path is None else Path(output_path)
        return write_loading(self.profiles, self.preprocessing_profiles, folder, "data_loading")


def _whole(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"{name}={value!r} is not possible: it is a whole number from 1 on.")
