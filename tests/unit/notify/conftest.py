from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _no_proxy_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """The servers of tests are on this machine."""
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
