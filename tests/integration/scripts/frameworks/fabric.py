"""A LightningModule and its Trainer; the dataset waits a little."""

import logging
import sys
import time
import warnings

import torch
from torch.utils.data import DataLoader, Dataset

warnings.filterwarnings("ignore")
import lightning  # noqa: E402

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
WAIT_S = float(sys.argv[1]) if len(sys.argv) > 1 else 0.0


class Points(Dataset):
    def __len__(self) -> int:
        return 96

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        time.sleep(WAIT_S)
        made = torch.Generator().manual_seed(index)
        return torch.randn(32, generator=made), torch.tensor(index % 2)


class Classifier(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2)
        )

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], _: int) -> torch.Tensor:
        points, labels = batch
        loss = torch.nn.functional.cross_entropy(self.layers(points), labels)
        self.last = loss.detach()
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters())


lightning.seed_everything(0, verbose=False)
model = Classifier()
trainer = lightning.Trainer(
    max_epochs=2,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(model, DataLoader(Points(), batch_size=8))
print("loss", model.last.item())
