"""Run folders of any content."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Path]:
    """A run folder with the given files, by their path in it."""

    def make(files: dict[str, bytes], folder: str = "run") -> Path:
        run = tmp_path / folder
        run.mkdir()
        (run / "meta.json").write_text('{"schema": 1, "name": "run", "started_unix": 5.0}')
        for name, content in files.items():
            path = run / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
        return run

    return make
