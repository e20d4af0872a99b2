"""Train on images that go through a chain of transforms; one of them, of the package, is dear."""

import argparse

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.amp import mixed
from lab.models import ConvNet
from lab.transforms import Compose, Elastic, Flip, ToTensor
from torch.utils.data import DataLoader, Dataset


class Scans(Dataset):
    def __init__(self, count, transform):
        images, self.labels = data.images(count)
        self.images, self.transform = images.numpy(), transform

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.transform(self.images[index]), self.labels[index]


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--steps", type=int, default=110)
    return parser.parse_args()


def main():
    args = parse()
    torch.set_num_threads(1)
    transform = Compose(Flip(), Elastic(planted.amount(60)), ToTensor())
    scans = Scans(args.batch_size * args.steps, transform)
    model = ConvNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    with planted.training():
        for images, labels in DataLoader(scans, args.batch_size, shuffle=True):
            optimizer.zero_grad()
            with mixed():
                loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
