"""What a dataset holds: whether it changed, and what of it cannot be shared."""

from __future__ import annotations

import io
import socket
import sys
from collections.abc import Iterator
from typing import Any

__all__ = ["changes_itself", "fingerprint", "held", "held_open", "on_accelerator"]

_DEPTH = 6  # objects within objects
_MOST = 64  # attributes or items of one of them
_IN_ALL = 1_000  # objects that are looked into
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
# By name: none of these is imported for the question.
_CONNECTIONS = {
    "h5py": ("File", "Dataset", "Group"),
    "sqlite3": ("Connection", "Cursor"),
    "zipfile": ("ZipFile", "ZipExtFile"),
    "tarfile": ("TarFile",),
    "lmdb": ("Environment", "Transaction"),
    "http.client": ("HTTPConnection", "HTTPResponse"),
    "requests": ("Session",),
    "urllib3": ("PoolManager", "HTTPConnectionPool"),
}


def held(dataset: Any) -> Iterator[tuple[str, Any]]:
    """What a dataset holds, by name ("dataset.files"), through the objects that it holds."""
    yield from _held("", dataset, _DEPTH, set())


def _held(name: str, value: Any, depth: int, met: set[int]) -> Iterator[tuple[str, Any]]:
    if id(value) in met or not depth or len(met) >= _IN_ALL:
        return
    met.add(id(value))
    if type(value) in (list, tuple):
        parts = [(f"{name}[{number}]", part) for number, part in enumerate(value[:_MOST])]
    elif type(value) is dict:
        parts = [(f"{name}[{key!r}]", part) for key, part in list(value.items())[:_MOST]]
    elif isinstance(value, type) or not hasattr(value, "__dict__"):
        return
    else:
        dotted = f"{name}." if name else ""
        parts = [(f"{dotted}{key}", part) for key, part in list(vars(value).items())[:_MOST]]
    for part_name, part in parts:
        yield part_name, part
        yield from _held(part_name, part, depth - 1, met)


def held_open(dataset: Any) -> str:
    """What of the dataset has a position or a conversation: "its open file 'handle'"; "": none."""
    for name, value in held(dataset):
        if isinstance(value, (io.FileIO, io.BufferedIOBase, io.TextIOBase)):
            if not isinstance(value, (io.BytesIO, io.StringIO)) and not value.closed:
                return f"its open file {name!r}"
        elif isinstance(value, socket.socket) or _is_connection(value):
            return f"its open connection {name!r}"
    return ""


def _is_connection(value: Any) -> bool:
    kind = type(value)
    for module, names in _CONNECTIONS.items():
        same = kind.__module__.split(".")[0] == module.split(".")[0]
        if same and module in sys.modules and kind.__name__ in names:
            return True
    return False


def on_accelerator(dataset: Any) -> bool:
    """Whether tensors of the dataset are anywhere but in the memory of the host."""
    import torch

    return any(
        isinstance(value, torch.Tensor) and value.device.type != "cpu" for _, value in held(dataset)
    )


def fingerprint(dataset: Any) -> dict[str, Any]:
    """What a program would have changed if it had set, filled or replaced something in its dataset.

    Contents of tensors are told by their version, those of arrays and deeper ones not at all.
    """
    return {name: _mark(value) for name, value in held(dataset)}


def _mark(value: Any) -> Any:
    if isinstance(value, _PLAIN):
        return repr(value) if isinstance(value, float) else value  # a NaN is no change
    if type(value) in (list, tuple, dict, set):
        return id(value), len(value)
    return id(value), _version(value)


def _version(value: Any) -> int:
    """How often a tensor was written to; of other things nothing is asked, they are the user's."""
    kind = type(value)
    known = (kind.__module__, kind.__name__) == ("torch", "Tensor") and not value.is_inference()
    return int(value._version) if known else 0


def changes_itself(before: dict[str, Any], dataset: Any) -> str:
    """The name of something that is not what it was; "": nothing."""
    after = fingerprint(dataset)
    for name in [*after, *before]:
        if before.get(name) != after.get(name) or (name in after) != (name in before):
            return name
    return ""
