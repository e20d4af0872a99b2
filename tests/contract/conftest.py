from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from stepscope.record.twin import TwinCore


def native_core() -> Any:
    return pytest.importorskip(
        "stepscope.record._native", reason="the native core was not built", exc_type=ImportError
    )


@pytest.fixture(params=["native", "python"])
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
