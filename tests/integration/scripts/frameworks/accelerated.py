"""A loop in the style of Accelerate; the dataset waits a little."""

import sys
import time

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, Dataset

WAIT_S = float(sys.argv[1]) if len(sys.argv) > 1 else 0.0


class Points(Dataset):
    def __len__(self) -> int:
        return 96

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        time.sleep(WAIT_S)
        made = torch.Generator().manual_seed(index)
        return torch.randn(32, generator=made), torch.tensor(index % 2)


torch.manual_seed(0)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
optimizer = torch.optim.AdamW(model.parameters())
loader = DataLoader(Points(), batch_size=8)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
loss = torch.zeros(())
for _ in range(2):
    for points, labels in loader:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.cross_entropy(model(points), labels)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
print("loss", loss.item())
