"""Train and put the weights themselves on the board, every few steps."""

import tempfile
from pathlib import Path

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.amp import mixed
from lab.board import Board
from lab.models import Mlp


def train(model, loader, board, rows):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step, (x, y) in enumerate(loader):
        with mixed():
            loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            board.scalar("loss", loss.item(), step)
        if rows and step % 5 == 0:
            board.weights(model, step, rows)


if __name__ == "__main__":
    torch.set_num_threads(1)
    features, labels = data.vectors(256 * 150)
    with tempfile.TemporaryDirectory() as folder:
        board = Board(Path(folder) / "board.jsonl")
        with planted.training():
            train(Mlp(), data.batches(256, features, labels), board, planted.amount(50))
        board.close()
