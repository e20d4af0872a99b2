"""Train a small language model with warm-up and gradient clipping, in float32 on purpose."""

import argparse
import math

import planted
import torch
import torch.nn.functional as F
from lab import data
from lab.models import Transformer
from torch import nn


def main(args):
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    corpus = data.texts(16 * args.steps, 65)
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / 10) * (1 + math.cos(step / args.steps)) / 2
    )
    with planted.training():
        for step, (tokens,) in enumerate(data.batches(16, corpus)):
            logits = model(tokens[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
            optimizer.step()
            schedule.step()
            if step % args.log_every == 0:
                print(f"step {step}: perplexity {loss.exp().item():.1f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--log-every", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    main(parser.parse_args())
