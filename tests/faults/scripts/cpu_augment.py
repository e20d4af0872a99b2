"""Train on photos whose colours are jittered pixel by pixel, in Python, in the training process."""

import random

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.amp import mixed
from lab.models import ConvNet
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


class Photos(Dataset):
    def __init__(self, count):
        self.images, self.labels = data.images(count)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.jitter(self.images[index]), self.labels[index]

    def jitter(self, image):
        with planted.cost("input-cpu"):
            row = image.view(-1).tolist()
            for pixel in range(planted.amount(14000)):
                row[pixel % len(row)] *= random.uniform(0.9, 1.1)
            return torch.tensor(row).view_as(image)


model = ConvNet()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
loader = DataLoader(Photos(8 * 110), batch_size=8, shuffle=True)

with planted.training():
    for images, labels in loader:
        with mixed():
            loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
