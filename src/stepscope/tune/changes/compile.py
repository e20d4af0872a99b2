"""The model compiled in place, so that it stays the object that the program knows."""

from __future__ import annotations

from typing import Any, ClassVar

from stepscope.collect.facts import is_compiled
from stepscope.tune.calls import Guarded, has_parameters
from stepscope.tune.injection import Injection, users_site

__all__ = ["Compile"]


class Compile(Injection):
    """settings: {"mode"?: str, "backend"?: str}, as torch.compile takes them. Rounding may differ.

    Where nothing can be compiled or a compiled call fails, the model runs as it was.
    """

    name: ClassVar[str] = "compile"

    def install(self) -> None:
        self._compiled: list[Any] = []

    def seen(self, module: Any) -> None:
        if not has_parameters(module):
            return
        why = self._why_not(module)
        if why:
            self.told.refused(why, users_site())
            return
        options = {key: self.settings[key] for key in ("mode", "backend") if self.settings.get(key)}
        module.compile(**options)
        module._compiled_call_impl = self._guarded(module, module._compiled_call_impl)
        self._compiled.append(module)
        words = ", ".join(f"{key}={value!r}" for key, value in options.items())
        self.told.applied(f"model.compile({words})", users_site())

    def _why_not(self, module: Any) -> str:
        if is_compiled([module]):
            return "the program compiles already."
        device = next(module.parameters()).device.type
        if device == "cpu" and self.settings.get("backend", "inductor") == "inductor":
            return _no_compiler()
        return ""

    def _guarded(self, module: Any, compiled: Any) -> Any:
        guarded = Guarded(module, lambda error: self._give_up(module, error))

        def call(*args: Any, **kwargs: Any) -> Any:
            return guarded.run(
                lambda: compiled(*args, **kwargs), lambda: module._call_impl(*args, **kwargs)
            )

        return call

    def _give_up(self, module: Any, error: BaseException) -> None:
        self._put_back(module)
        first_line = str(error).strip().partition("\n")[0]
        self.told.refused(f"the compiled model fails: {type(error).__name__}: {first_line}")

    def _put_back(self, module: Any) -> None:
        module._compiled_call_impl = None
        self._compiled = [one for one in self._compiled if one is not module]

    def undo(self) -> None:
        for module in list(self._compiled):
            self._put_back(module)
        super().undo()


def _no_compiler() -> str:
    """Why torch cannot compile for CPUs here; "": it can. It has to find a C++ compiler."""
    try:
        from torch._inductor.cpp_builder import get_cpp_compiler

        get_cpp_compiler()
    except Exception as error:  # noqa: BLE001 - torch has several ways to say it
        return f"nothing to compile with: {str(error).strip() or type(error).__name__}"
    return ""
