"""Train and go through the whole held-out set every few steps."""

import argparse

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.amp import mixed
from lab.models import Mlp


def evaluate(model, loader):
    with planted.cost("validation"):
        model.eval()
        correct = count = 0
        with torch.no_grad():
            for x, y in loader:
                with mixed():
                    predicted = model(x).argmax(dim=1)
                correct += int((predicted == y).sum())
                count += len(y)
        model.train()
        return correct / count


def main(args):
    torch.set_num_threads(1)
    features, labels = data.vectors(256 * 160)
    train = data.batches(256, features, labels)
    held_out = data.batches(256, *data.vectors(256 * 40))
    model = Mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    with planted.training():
        for step, (x, y) in enumerate(train, start=1):
            with mixed():
                loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % args.every == 0:
                print(f"step {step}: accuracy {evaluate(model, held_out):.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--every", type=int, default=planted.every(10))
    main(parser.parse_args())
