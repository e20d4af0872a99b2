"""PreprocessingProfiler: what a function takes, alone and on batches of several sizes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from stepscope.errors import NoResultsError, UsageError
from stepscope.model.loading import PreprocessingProfile
from stepscope.profilers.bottleneck_config import AnyConfig, Configured
from stepscope.session.preprocessing import Cache, batch_of, profile_function
from stepscope.session.written import ReportPaths, write_loading

__all__ = ["PreprocessingProfiler"]

_logger = logging.getLogger("stepscope")


class PreprocessingProfiler(Configured):
    """Calls a function with the same data many times.

    The source document differs in these points, and this is what was built instead: its cache is
    keyed by the shape of the data, so it gives out another input's result, and its times are those
    of the cache (here: keyed by the content, only for functions that give the same again, and
    measured apart: every call that counts is made); it repeats a sample along its own first
    dimension (here: batches have a dimension of their own).
    """

    def __init__(self, config: AnyConfig | None = None) -> None:
        super().__init__(config)
        self.preprocessing_cache = Cache(self.config.cache_size)
        self.profiles: list[PreprocessingProfile] = []

    def profile_preprocessing_function(
        self,
        preprocessing_func: Callable[[Any], Any],
        sample_data: Any,
        num_iterations: int = 10,
        operation_name: str | None = None,
    ) -> PreprocessingProfile:
        """What one call takes. Two calls more are made before, to see whether it gives the same
        again and leaves its input alone; they are not measured."""
        if not callable(preprocessing_func):
            raise UsageError(f"Preprocessing is a function, not {preprocessing_func!r}.")
        if isinstance(num_iterations, bool) or not isinstance(num_iterations, int):
            raise UsageError(f"num_iterations is a whole number, not {num_iterations!r}.")
        if num_iterations < 1:
            raise UsageError(f"num_iterations={num_iterations} is not possible: from 1 on.")
        name = operation_name or str(getattr(preprocessing_func, "__name__", "preprocessing"))
        if not self.config.enabled:
            note = "Profiling is switched off (enabled=False): nothing was measured."
            return PreprocessingProfile(operation_name=name, num_iterations=0, notes=(note,))
        self.preprocessing_cache.size = self.config.cache_size
        profile = profile_function(
            name,
            preprocessing_func,
            sample_data,
            num_iterations,
            self.config,
            self.preprocessing_cache,
        )
        self.profiles.append(profile)
        return profile

    def profile_batch_preprocessing(
        self,
        preprocessing_func: Callable[[Any], Any],
        sample_data: Any,
        batch_sizes: Sequence[int] | None = None,
        num_iterations: int = 5,
    ) -> list[PreprocessingProfile]:
        """The same on batches of copies of a sample, one profile for each size that works; the
        others are logged."""
        name = getattr(preprocessing_func, "__name__", "preprocessing")
        found = []
        for size in self.config.batch_size_range if batch_sizes is None else batch_sizes:
            try:
                profile = self.profile_preprocessing_function(
                    preprocessing_func,
                    batch_of(sample_data, size),
                    num_iterations,
                    f"{name}_batch_{size}",
                )
            except Exception as error:  # noqa: BLE001 - the function is the user's
                _logger.warning("Failed to profile batch_size=%s: %r", size, error)
                continue
            took_s = profile.execution_time
            rate = size / took_s if took_s else None
            profile = replace(profile, batch_size=size, samples_per_second=rate)
            if self.config.enabled:
                self.profiles[-1] = profile
            found.append(profile)
        return found

    def generate_report(self, output_path: str | Path | None = None) -> ReportPaths:
        """Write what was profiled as Markdown and JSON into a folder; where they lie."""
        if not self.profiles:
            raise NoResultsError(
                "Nothing was profiled yet: call profile_preprocessing_function() first."
            )
        folder = self.config.folder if output_path is None else Path(output_path)
        return write_loading([], self.profiles, folder, "preprocessing")
