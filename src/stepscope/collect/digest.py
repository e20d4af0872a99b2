"""What data is, in 16 bytes: two things with the same digest hold the same."""

from __future__ import annotations

import pickle
from typing import Any

__all__ = ["batch_of", "digest", "shape_of"]


def digest(data: Any) -> bytes | None:
    """By content, kind and shape, nested or not; None: it cannot be told (no way to look into
    it)."""
    from hashlib import blake2b

    found = blake2b(digest_size=16)
    try:
        _add(found, data)
    except Exception:  # noqa: BLE001 - whatever it is, it is the user's, and cannot be pickled
        return None
    return found.digest()


def _add(found: Any, data: Any) -> None:
    if hasattr(data, "detach") and hasattr(data, "dtype"):  # a tensor
        import torch

        found.update(f"tensor {data.dtype} {tuple(data.shape)} {data.device}".encode())
        plain = data.detach().to("cpu").contiguous().reshape(-1)
        found.update(plain.view(torch.uint8).numpy().data)
    elif hasattr(data, "tobytes") and hasattr(data, "dtype"):  # an array
        if data.dtype.hasobject:
            raise TypeError("an array of objects holds their addresses")
        found.update(f"array {data.dtype} {data.shape}".encode())
        found.update(data.tobytes())
    elif isinstance(data, list | tuple):
        found.update(f"{type(data).__name__} {len(data)}".encode())
        for one in data:
            _add(found, one)
    elif isinstance(data, dict):
        found.update(f"dict {len(data)}".encode())
        for key, one in data.items():
            _add(found, key)
            _add(found, one)
    else:
        found.update(pickle.dumps(data))


def shape_of(data: Any) -> tuple[int, ...] | None:
    shape = getattr(data, "shape", None)
    return None if shape is None else tuple(int(size) for size in shape)


def batch_of(sample: Any, size: int) -> Any:
    """So many copies of a sample along a new first dimension; a list where it has none."""
    if hasattr(sample, "unsqueeze"):
        return sample.unsqueeze(0).repeat(size, *([1] * sample.dim()))
    if hasattr(sample, "dtype") and hasattr(sample, "shape"):
        return sample[None].repeat(size, axis=0)
    return [sample] * size
