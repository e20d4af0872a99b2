"""ipc_tensors: the moves are ready in memory, so no worker has to hand them over."""

import argparse
import time

import planted
import torch
import torch.nn.functional as F
from lab.amp import mixed
from lab.models import Mlp
from torch.utils.data import DataLoader, Dataset


class Episodes(Dataset):
    def __init__(self, count, moves):
        self.count = count
        self.moves = [torch.randn(256) for _ in range(max(1, moves))]

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.moves  # one tensor for each move


def play(args):
    loader = DataLoader(Episodes(args.episodes, planted.amount(300)), batch_size=None)
    model = Mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    waited = 0.0
    with planted.training():
        mark = time.perf_counter()
        for moves in loader:
            waited += time.perf_counter() - mark
            x = torch.stack(moves[:256])
            x = x.repeat(-(-256 // len(x)), 1)[:256]
            for _ in range(4):
                with mixed():
                    loss = F.cross_entropy(model(x), torch.arange(256) % 10)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            mark = time.perf_counter()
        planted.charge("input-ipc", waited)


if __name__ == "__main__":
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=50)
    play(parser.parse_args())
