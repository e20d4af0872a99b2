"""Train on images that a persistent worker flips and shifts: always ready before it is needed."""

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.amp import mixed
from lab.models import ConvNet
from torch.utils.data import DataLoader, Dataset


class Flipped(Dataset):
    def __init__(self, count):
        self.images, self.labels = data.images(count)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index]
        if torch.rand(()) < 0.5:
            image = image.flip(-1)
        return image.roll(int(torch.randint(-4, 5, ())), dims=-1), self.labels[index]


def run(epochs=2):
    loader = DataLoader(Flipped(32 * 32), 32, shuffle=True, num_workers=1, persistent_workers=True)
    model = ConvNet(depth=3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with planted.training():
        for epoch in range(epochs):
            for images, labels in loader:
                with mixed():
                    loss = F.cross_entropy(model(images), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            print(f"epoch {epoch}: loss {loss.item():.3f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    run()
