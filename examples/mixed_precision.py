"""
Train in mixed precision with torch's own autocast and GradScaler, and profile every epoch.

Where the hardware computes in half precision it does; elsewhere everything stays float32, and the
loop is the same.

    python examples/mixed_precision.py
"""

import argparse
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from stepscope import AdvancedProfiler, ProfilingConfig


@dataclass(frozen=True)
class MixedPrecisionConfig:
    enabled: bool = True
    device: str = field(default_factory=lambda: "cuda" if torch.cuda.is_available() else "cpu")

    @property
    def dtype(self) -> torch.dtype:
        """What autocast computes in: half precision on a GPU, bfloat16 on a CPU."""
        return torch.float16 if self.device == "cuda" else torch.bfloat16


class MixedPrecisionManager:
    """A forward pass under autocast, a backward pass of the scaled loss, a step that is left out
    where gradients overflowed."""

    def __init__(self, config: MixedPrecisionConfig):
        self.config = config
        # bfloat16 has the range of float32: only float16 needs its gradients scaled.
        scales = config.enabled and config.dtype == torch.float16
        self.scaler = torch.amp.GradScaler(config.device, enabled=scales)

    def train_epoch(
        self, loader: Iterable[Any], model: nn.Module, optimizer: torch.optim.Optimizer
    ) -> dict[str, list[Any]]:
        """The loss of every step, and the precision that its output was computed in."""
        losses, modes = [], []
        for features, targets in loader:
            optimizer.zero_grad()
            with torch.autocast(
                self.config.device, dtype=self.config.dtype, enabled=self.config.enabled
            ):
                outputs = model(features.to(self.config.device))
                loss = F.mse_loss(outputs.float(), targets.to(self.config.device))
            self.scaler.scale(loss).backward()
            self.scaler.step(optimizer)
            self.scaler.update()
            losses.append(loss.item())
            modes.append(str(outputs.dtype).removeprefix("torch."))
        return {"losses": losses, "precision_modes": modes}


def make_data(count: int) -> TensorDataset:
    """The sum of eight numbers, to be learnt."""
    features: Tensor = torch.randn(count, 8)
    return TensorDataset(features, features.sum(1, keepdim=True))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--samples", type=int, default=512)
    args = parser.parse_args()

    torch.manual_seed(1337)
    manager = MixedPrecisionManager(MixedPrecisionConfig())
    profiler = AdvancedProfiler(ProfilingConfig())
    model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 1)).to(manager.config.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    loader = DataLoader(make_data(args.samples), batch_size=32, shuffle=True)

    for epoch in range(args.epochs):
        profiler.start_profiling()
        trained = manager.train_epoch(loader, model, optimizer)
        results = profiler.stop_profiling()
        took = f"{results['combined'].execution_time:.2f} s"
        loss, mode = trained["losses"][-1], trained["precision_modes"][-1]
        found = len(results["bottlenecks"])
        print(f"epoch {epoch}: loss {loss:.3f} in {mode}, {took}, {found} bottlenecks")


if __name__ == "__main__":
    main()
