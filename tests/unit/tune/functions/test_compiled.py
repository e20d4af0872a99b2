from __future__ import annotations

from typing import Any

import pytest
import torch

from stepscope.tune.functions.compiled import Compiled, has_compiler


@pytest.fixture
def compiling(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """torch.compile takes half a minute: here it gives the function as it is, and counts calls."""
    calls: list[Any] = []

    def compile_(function: Any) -> Any:
        def fast(data: Any) -> Any:
            calls.append(data)
            if data == "breaks":
                raise RuntimeError("no such kernel")
            return function(data)

        return fast

    monkeypatch.setattr(torch, "compile", compile_)
    return calls


def test_the_compiled_function_is_called(compiling: list[Any]) -> None:
    function = Compiled(str.upper, "a")
    assert function("b") == "B"
    assert compiling == ["a", "b"]


def test_what_fails_compiled_goes_to_the_function_from_then_on(compiling: list[Any]) -> None:
    function = Compiled(str.upper, "a")
    assert function("breaks") == "BREAKS"
    assert function("b") == "B"
    assert compiling == ["a", "breaks"]


def test_an_error_of_the_function_itself_comes_through(compiling: list[Any]) -> None:
    with pytest.raises(TypeError):
        Compiled(str.upper, "a")(1)


def test_a_compiler_is_looked_for_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    assert not has_compiler()
    monkeypatch.setenv("CXX", "/bin/sh")
    assert has_compiler()


@pytest.mark.extended
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, while it compiles
@pytest.mark.skipif(not has_compiler(), reason="torch.compile needs a C++ compiler")
def test_torch_really_compiles_it() -> None:
    def function(data: torch.Tensor) -> torch.Tensor:
        return torch.sin(data) * 2 + 1

    data = torch.randn(100)
    assert torch.allclose(Compiled(function, data)(data), function(data))
