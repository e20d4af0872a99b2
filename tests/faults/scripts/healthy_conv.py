"""Train a convolutional classifier with a trainer class, channels_last and mixed precision."""

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.amp import mixed
from lab.models import ConvNet
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, model, loader, lr):
        self.model, self.loader = model, loader
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, len(loader))

    def step(self, images, labels):
        with mixed():
            loss = F.cross_entropy(self.model(images), labels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.schedule.step()
        return loss.detach()

    def fit(self):
        losses = []
        for images, labels in self.loader:
            losses.append(self.step(images, labels))
        return torch.stack(losses).mean().item()


if __name__ == "__main__":
    torch.set_num_threads(1)
    loader = DataLoader(TensorDataset(*data.images(16 * 130)), batch_size=16, shuffle=True)
    trainer = Trainer(ConvNet(), loader, lr=0.05)
    with planted.training():
        print(f"loss {trainer.fit():.3f}")
