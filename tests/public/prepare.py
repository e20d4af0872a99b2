"""Synthetic data for public programs, written where they expect what they would download."""

from __future__ import annotations

import pickle
import random
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

WORDS = 2_000


def mnist(root: Path, train: int = 4_000, test: int = 1_000) -> None:
    """Noise in the files of MNIST; torchvision looks only whether these exist."""
    raw = root / "MNIST" / "raw"
    raw.mkdir(parents=True)
    rng = random.Random(0)
    for prefix, count in (("train", train), ("t10k", test)):
        images = struct.pack(">IIII", 2051, count, 28, 28) + rng.randbytes(count * 784)
        labels = struct.pack(">II", 2049, count) + bytes(rng.choices(range(10), k=count))
        (raw / f"{prefix}-images-idx3-ubyte").write_bytes(images)
        (raw / f"{prefix}-labels-idx1-ubyte").write_bytes(labels)
        for name in (f"{prefix}-images-idx3-ubyte.gz", f"{prefix}-labels-idx1-ubyte.gz"):
            (raw / name).touch()


def folder(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)


def text(file: Path, words: int, line: int = 20) -> None:
    """Random words of a fixed vocabulary, the frequent ones first, in lines."""
    rng = random.Random(words)
    weights = [1 / rank for rank in range(1, WORDS + 1)]
    chosen = rng.choices([f"w{number}" for number in range(WORDS)], weights, k=words)
    lines = (" ".join(chosen[at : at + line]) for at in range(0, words, line))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n")


def letters(file: Path, count: int) -> None:
    """Random letters, with what a program samples from at the front."""
    rng = random.Random(count)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("O God, O God!\n" + "".join(rng.choices("etaoin shrdlu\n", k=count)))


def tokens(path: Path, count: int = 100_000, vocabulary: int = 65) -> None:
    """Token files of nanoGPT: unsigned 16-bit integers."""
    rng = random.Random(0)
    path.mkdir(parents=True, exist_ok=True)
    for name, size in (("train.bin", count), ("val.bin", count // 10)):
        values = rng.choices(range(vocabulary), k=size)
        (path / name).write_bytes(struct.pack(f"<{size}H", *values))
    (path / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": vocabulary}))


def cora(path: Path, nodes: int = 2_708, features: int = 500, edges: int = 5_429) -> None:
    """A random citation graph in the two files of Cora."""
    rng = random.Random(0)
    path.mkdir(parents=True, exist_ok=True)
    with (path / "cora.content").open("w") as content:
        for node in range(nodes):
            bits = rng.choices("01", weights=(97, 3), k=features)
            content.write(f"{node}\t" + "\t".join(["1", *bits]) + f"\tclass{node % 7}\n")
    pairs = {(rng.randrange(nodes), rng.randrange(nodes)) for _ in range(edges)}
    (path / "cora.cites").write_text("".join(f"{a}\t{b}\n" for a, b in sorted(pairs)))


def waves(file: Path, count: int = 20, length: int = 200) -> None:
    """Sine waves with random phases, one in each row."""
    phases = np.random.default_rng(0).uniform(0, 20, (count, 1))
    np.save(file, np.sin((np.arange(length) + phases) / 20))


def images(path: Path, count: int, side: int) -> None:
    """JPEG files of colored noise."""
    _pictures(path, count, side, "RGB", "jpg")


def masks(path: Path, count: int, side: int) -> None:
    """One file of black and white noise for each of `images`."""
    _pictures(path, count, side, "1", "png")


def _pictures(path: Path, count: int, side: int, mode: str, ending: str) -> None:
    rng = random.Random(0)
    small = side // 8
    path.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        noise = Image.frombytes("RGB", (small, small), rng.randbytes(3 * small**2))
        noise.convert(mode).resize((side, side)).save(path / f"{number}.{ending}")


FUNCTIONS: dict[str, Callable[..., None]] = {
    function.__name__: function
    for function in (cora, folder, images, letters, masks, mnist, text, tokens, waves)
}
