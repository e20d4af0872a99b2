"""Mixed precision: the model's forward under torch.autocast, its results in float32 again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

from stepscope.collect.facts import cpu_features
from stepscope.tune.calls import Around, Call, Guarded, Wrap, has_parameters, with_tensors
from stepscope.tune.injection import Injection, users_site

__all__ = ["Autocast"]

_MULTIPLIERS: Final = {
    "bfloat16": {"avx512_bf16", "amx_bf16", "bf16"},
    "float16": {"avx512_fp16", "asimdhp"},
}


class Autocast(Injection):
    """settings: {"dtype": "bfloat16"}. Changes results: eight bits of mantissa in products."""

    name: ClassVar[str] = "autocast"
    features: Callable[[], Sequence[str]] = staticmethod(cpu_features)

    def install(self) -> None:
        self._around = Around(self.patches)

    def seen(self, module: Any) -> None:
        import torch

        if not has_parameters(module):
            return
        name = str(self.settings.get("dtype", "bfloat16"))
        first = next(module.parameters())
        device = first.device.type
        why = self._why_not(torch, device, name, module)
        if why:
            self.told.refused(why, users_site())
            return
        self._around.add(module, self._wrapped(module, device, getattr(torch, name)))
        self.told.applied(f"torch.autocast({device!r}, torch.{name})", users_site())

    def _why_not(self, torch: Any, device: str, name: str, module: Any) -> str:
        if torch.is_autocast_enabled(device):
            return "the model runs under autocast already."
        if any(one.dtype != torch.float32 for one in module.parameters()):
            return "the model has parameters that are not float32."
        if device == "cpu" and not _MULTIPLIERS.get(name, set()) & set(self.features()):
            return f"this CPU does not multiply in {name}."
        return ""

    def _wrapped(self, module: Any, device: str, dtype: Any) -> Wrap:
        import torch

        guarded = Guarded(module, lambda error: self._give_up(module, error))

        def single(tensor: Any) -> Any:
            return tensor.float() if tensor.dtype == dtype else tensor

        def call_with(call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            def changed() -> Any:
                with torch.autocast(device, dtype):
                    result = call(*args, **kwargs)
                return with_tensors(result, single, torch.Tensor)

            return guarded.run(changed, lambda: call(*args, **kwargs))

        return call_with

    def _give_up(self, module: Any, error: BaseException) -> None:
        self._around.remove(module)
        self.told.refused(f"the model fails under autocast: {error}", users_site())

    def undo(self) -> None:
        self._around.clear()
        super().undo()
