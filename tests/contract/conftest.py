from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from stepscope.record.twin import TwinCore

SANITIZER = os.environ.get("STEPSCOPE_SANITIZER")  # asan or tsan: see sanitize.sh
CORES = ["native"] if SANITIZER else ["native", "python"]  # the twin has nothing to sanitize


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests that cannot run under the sanitizer, with the reason that they give."""
    for marker in item.iter_markers("not_under"):
        if SANITIZER in marker.args:
            pytest.skip(f"not under {SANITIZER}: {marker.kwargs['reason']}")


def native_core() -> Any:
    core = pytest.importorskip(
        "stepscope.record._native", reason="the native core was not built", exc_type=ImportError
    )
    assert not SANITIZER or f"/build/{SANITIZER}/" in core.__file__, "not the instrumented core"
    return core


@pytest.fixture(params=CORES)
def core(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Each core in turn, with nothing pending."""
    core = native_core() if request.param == "native" else TwinCore()
    core.close()
    core.drain()
    core.set_step(0)
    yield core
    core.close()
    core.drain()
    core.set_step(0)
