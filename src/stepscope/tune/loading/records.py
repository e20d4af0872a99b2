"""A sample as plain bytes and back: tensors, arrays, numbers and words, in tuples, lists and dicts.

    record = ┌────────────┬──────────────┬───────────────────────────────┐
             │ length: u32│ form: JSON   │ payloads, each from a new 16  │
             └────────────┴──────────────┴───────────────────────────────┘

The form says what there is: all samples of fixed shapes have the same, and it is read once. Nothing
is pickled: what is read is never code.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

__all__ = ["MARKER", "NotKeptError", "decoded", "encoded"]

_ALIGNED = 16
_LENGTH = struct.Struct("<I")
_NUMBER = {"i": struct.Struct("<q"), "f": struct.Struct("<d")}
_INT64 = 1 << 63
_READERS = 256  # forms that are remembered

Read = Callable[[memoryview, int, bool], Any]  # (record, where it begins, copied) → what it is


class _Marker:
    """Stands in a sample for what a transform will give."""


MARKER = _Marker()


class NotKeptError(TypeError):
    """Samples hold something that cannot be kept as plain bytes."""


def encoded(sample: Any, *, images: bool = False) -> list[bytes | memoryview]:
    """The parts of its record. NotKeptError: it has something else in it than plain data.

    images: those of Pillow too; what comes back is an Image, whatever kind of one it was.
    """
    writer = _Writer(images)
    form = json.dumps(writer.form(sample), separators=(",", ":")).encode()
    head = _LENGTH.pack(len(form)) + form
    return [head, *_padded(len(head)), *writer.parts]


def _padded(length: int) -> list[bytes]:
    missing = -length % _ALIGNED
    return [bytes(missing)] if missing else []


class _Writer:
    def __init__(self, images: bool) -> None:
        self._images = images
        self.parts: list[bytes | memoryview] = []

    def _add(self, payload: bytes | memoryview) -> None:
        self.parts += [payload, *_padded(len(payload))]

    def form(self, value: Any) -> Any:
        """What stands in the form; its payload is put by."""
        kind = type(value)
        if value is None or value is MARKER or kind is bool:
            return "m" if value is MARKER else value
        if kind is int and -_INT64 <= value < _INT64:
            self._add(_NUMBER["i"].pack(value))
            return "i"
        if kind is float:
            self._add(_NUMBER["f"].pack(value))
            return "f"
        if kind in (str, bytes):
            payload = value.encode("utf-8", "surrogatepass") if kind is str else value
            self._add(payload)
            return ["s" if kind is str else "y", len(payload)]
        return self._container(value) if kind in (list, tuple, dict) else self._data(value)

    def _container(self, value: Any) -> Any:
        if isinstance(value, dict):
            if any(type(key) not in (str, int) for key in value):
                raise NotKeptError("a dictionary has keys that are no words")
            return ["d", [*value], [self.form(one) for one in value.values()]]
        return ["l" if isinstance(value, list) else "t", [self.form(one) for one in value]]

    def _data(self, value: Any) -> Any:
        kind = type(value)
        module, name = kind.__module__, kind.__name__
        if (module, name) == ("torch", "Tensor"):
            return self._tensor(value)
        if module == "numpy" and hasattr(value, "dtype"):
            return self._array(value)
        if self._images and module.startswith("PIL.") and hasattr(value, "tobytes"):
            if value.mode not in ("1", "L", "RGB", "RGBA", "I", "F", "CMYK", "YCbCr", "HSV"):
                raise NotKeptError(f"an image of mode {value.mode}")
            payload = value.tobytes()
            self._add(payload)
            return ["p", value.mode, [*value.size], len(payload)]
        raise NotKeptError(f"a {module}.{name}")

    def _tensor(self, tensor: Any) -> Any:
        import torch

        if tensor.layout is not torch.strided or tensor.device.type != "cpu":
            raise NotKeptError("a tensor that is sparse or on an accelerator")
        if tensor.requires_grad or tensor.is_quantized:
            raise NotKeptError("a tensor that is quantised or has a gradient")
        order = sorted(range(tensor.dim()), key=lambda axis: -tensor.stride(axis))
        lying = tensor.permute(order).resolve_conj().resolve_neg()
        if not lying.is_contiguous():
            order, lying = [*range(tensor.dim())], tensor.contiguous()
        self._add(memoryview(lying.reshape(-1).view(torch.uint8).numpy()))
        return ["T", str(tensor.dtype)[6:], [*lying.shape], order]

    def _array(self, array: Any) -> Any:
        import numpy as np

        if array.dtype.hasobject or array.dtype.names:
            raise NotKeptError("an array of objects or records")
        if isinstance(array, np.generic):
            self._add(array.tobytes())
            return ["N", array.dtype.str]
        fortran = bool(array.flags.f_contiguous and not array.flags.c_contiguous)
        self._add(array.tobytes(order="A"))
        return ["A", array.dtype.str, [*array.shape], "F" if fortran else "C"]


def decoded(record: memoryview, *, copied: bool = True) -> Any:
    """The sample. Not copied: what it holds lies in the record, and is not to be written."""
    (length,) = _LENGTH.unpack_from(record)
    form = bytes(record[_LENGTH.size : _LENGTH.size + length])
    read = _readers.get(form)
    if read is None:
        read, _ = _reader(json.loads(form), -(-(_LENGTH.size + length) // _ALIGNED) * _ALIGNED)
        if len(_readers) >= _READERS:
            _readers.clear()
        _readers[form] = read
    return read(record, copied)


_readers: dict[bytes, Callable[[memoryview, bool], Any]] = {}


def _reader(form: Any, at: int) -> tuple[Callable[[memoryview, bool], Any], int]:
    """What reads this part of a record, and where the next part begins."""
    if form is None or isinstance(form, bool) or form == "m":
        value = MARKER if form == "m" else form
        return (lambda record, copied: value), at
    if form in ("i", "f"):
        unpack = _NUMBER[form].unpack_from
        return (lambda record, copied: unpack(record, at)[0]), at + _ALIGNED
    kind = form[0]
    if kind in "lt":
        return _sequence(form[1], at, list if kind == "l" else tuple)
    if kind == "d":
        keys = form[1]
        read, after = _sequence(form[2], at, list)
        return (lambda record, copied: dict(zip(keys, read(record, copied), strict=True))), after
    return _payload(form, at)


def _sequence(
    forms: list[Any], at: int, kind: Callable[[Any], Any]
) -> tuple[Callable[[memoryview, bool], Any], int]:
    reads = []
    for form in forms:
        read, at = _reader(form, at)
        reads.append(read)
    return (lambda record, copied: kind([read(record, copied) for read in reads])), at


def _payload(form: Any, at: int) -> tuple[Callable[[memoryview, bool], Any], int]:
    read, nbytes = {"T": _tensor, "A": _array, "N": _scalar, "p": _image}.get(form[0], _text)(form)
    end = at + nbytes
    return (
        lambda record, copied: read(record[at:end], copied),
        at + -(-nbytes // _ALIGNED) * _ALIGNED,
    )


_Made = tuple[Callable[[memoryview, bool], Any], int]


def _tensor(form: Any) -> _Made:
    import torch

    dtype, shape, order = getattr(torch, form[1]), tuple(form[2]), form[3]
    back = [order.index(axis) for axis in range(len(order))]
    plain = back == [*range(len(back))]
    count = 1
    for size in shape:
        count *= size

    def read(payload: memoryview, copied: bool) -> Any:
        if not count:
            return torch.empty(shape, dtype=dtype).permute(back)
        found = torch.frombuffer(payload, dtype=dtype, count=count).view(shape)
        found = found if plain else found.permute(back)
        return found.clone() if copied else found

    return read, count * torch.empty(0, dtype=dtype).element_size()


def _array(form: Any) -> _Made:
    import numpy as np

    dtype, shape, order = np.dtype(form[1]), tuple(form[2]), form[3]
    count = int(np.prod(shape, dtype=np.int64))

    def read(payload: memoryview, copied: bool) -> Any:
        found = np.frombuffer(payload, dtype=dtype, count=count).reshape(shape, order=order)
        return found.copy(order="K") if copied else found

    return read, count * dtype.itemsize


def _scalar(form: Any) -> _Made:
    import numpy as np

    dtype = np.dtype(form[1])
    return (lambda payload, copied: np.frombuffer(payload, dtype, 1)[0]), dtype.itemsize


def _image(form: Any) -> _Made:
    from PIL import Image

    mode, size = form[1], tuple(form[2])
    return (lambda payload, copied: Image.frombytes(mode, size, bytes(payload))), int(form[3])


def _text(form: Any) -> _Made:
    if form[0] == "y":
        return (lambda payload, copied: bytes(payload)), int(form[1])
    return (lambda payload, copied: bytes(payload).decode("utf-8", "surrogatepass")), int(form[1])
