"""Checkpoints being written → `save` spans, with the bytes that reached a path."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from stepscope.collect.chain import spanned
from stepscope.collect.hooking import HookingCollector
from stepscope.collect.imports import when_imported
from stepscope.model import names
from stepscope.record.recorder import Recorder

__all__ = ["SavesCollector"]

# function → where its path stands, positional and by keyword. A folder of many files has no size.
_TORCH = {"save": (1, "f")}
_CHECKPOINT = {"save": (99, ""), "async_save": (99, "")}
_SAFETENSORS = {"save_file": (1, "filename"), "save_model": (1, "filename")}


class SavesCollector(HookingCollector):
    """Spans around torch.save, torch.distributed.checkpoint and safetensors."""

    name = "saves"

    def _install(self, recorder: Recorder) -> None:
        import torch

        self._wrap(recorder, (torch.serialization, torch), _TORCH)
        when_imported(
            "torch.distributed.checkpoint", self._later(recorder, _CHECKPOINT), recorder.failed
        )
        when_imported("safetensors.torch", self._later(recorder, _SAFETENSORS), recorder.failed)

    def _later(
        self, recorder: Recorder, functions: dict[str, tuple[int, str]]
    ) -> Callable[[ModuleType], None]:
        def wrap(module: ModuleType) -> None:
            if self._running:
                self._wrap(recorder, (module,), functions)

        return wrap

    def _wrap(
        self, recorder: Recorder, owners: tuple[Any, ...], functions: dict[str, tuple[int, str]]
    ) -> None:
        import torch

        for function, (position, keyword) in functions.items():
            original = getattr(owners[0], function, None)
            if original is None:
                continue
            wrapper = spanned(
                recorder,
                names.SAVE,
                original,
                compiling=torch.compiler.is_dynamo_compiling,
                outcome=_bytes_written(position, keyword),
            )
            # Also where it was defined: that is where pickle looks for it.
            home = sys.modules.get(getattr(original, "__module__", ""))
            for owner in {id(each): each for each in (*owners, home) if each is not None}.values():
                if getattr(owner, function, None) is original:
                    self._patches.put(owner, function, wrapper)


def _bytes_written(position: int, keyword: str) -> Callable[..., int]:
    def bytes_written(_: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        return _bytes_at(args[position] if len(args) > position else kwargs.get(keyword))

    return bytes_written


def _bytes_at(path: object) -> int:
    """Size of the file at a path; 0 for anything else (buffers, folders, what is gone)."""
    if not isinstance(path, (str, os.PathLike)):
        return 0
    try:
        return os.stat(path).st_size  # noqa: PTH116 - also for odd PathLikes
    except OSError:
        return 0
