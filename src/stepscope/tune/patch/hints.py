"""What has the same effect as a change that is not written into the source."""

from __future__ import annotations

from typing import Any, Final

from stepscope.model.change import Change

__all__ = ["setting_for"]

_APPLY: Final = "stepscope run --apply stepscope.toml …"
_CODE: Final = {
    "autocast": "with torch.autocast(device_type=…, dtype=torch.{dtype}): …  # around model(x)",
    "batch": "DataLoader(…, batch_size={factor} * …)",
    "batched": "def __getitems__(self, indices): …  # of the dataset: a batch at once",
    "compile": "model.compile()  # before the first step",
    "denormals": "torch.set_flush_denormal(True)  # after import torch",
    "float32": "x = x.float(); model = model.float()  # and dtype=torch.float32",
    "gc": "gc.collect(); gc.freeze()  # after some steps\n"
    "gc.disable()  # before the loop, and then in it:\n"
    "if step % {every_steps} == 0: gc.collect()",
    "layout": "model = model.to(memory_format=torch.channels_last)\n"
    "out = model(x.to(memory_format=torch.channels_last))",
    "loader": "DataLoader(…, {arguments})",
    "non-blocking": "x = x.to(device, non_blocking=True)  # out of pinned memory",
    "optimizer": "torch.optim.…(…, {arguments})",
    "packing": "return torch.from_numpy(np.stack(batch))  # tensors out of collate_fn",
    "plan": "stepscope.CheckpointManager(model).apply_file({path!r})",
    "recompute": "block(x)  # instead of checkpoint(block, x)",
    "threads": "torch.set_num_threads({torch})  # after import torch",
    "zero-grad": "optimizer.zero_grad(set_to_none=True)",
}
_DEFAULTS: Final = {"dtype": "bfloat16", "every_steps": 20, "factor": 2, "path": "plan.json"}
_NO_ARGUMENTS: Final = ("site", "iterable")  # which loader is meant


class _Known(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return "…"


def setting_for(change: Change) -> str:
    """The command that applies it, and under it the code where it is short."""
    code = _CODE.get(change.name)
    if code is None:
        return _APPLY
    shown = {key: value for key, value in change.settings.items() if value not in (None, 0, "")}
    arguments = ", ".join(
        f"{key}={value!r}" for key, value in change.settings.items() if key not in _NO_ARGUMENTS
    )
    filled = _Known({**_DEFAULTS, **shown, "arguments": arguments})
    return f"{_APPLY}\n{code.format_map(filled)}"
