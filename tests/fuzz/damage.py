"""Ways to damage bytes and JSON documents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from random import Random
from typing import Any

# Values that readers stumble over, whatever they expect.
ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 10**400, 0.5, -0.0, 1e300, -1e300, 1e-320,
    float("nan"), float("inf"), float("-inf"), "", "0", "x", "nan", "\0", "a\0b", "../../x",
    "\x1b]52;c;QUJD\x07", "\x1b[2J", "\u202egnp", "\ud800", "<script>alert(1)</script>", "=1+1",
    "x" * 70_000,     [], {}, [[]], [None], {"": None}, [0] * 1000, {"a": {"a": {"a": {}}}},
)  # fmt: skip


def damaged_bytes(data: bytes, random: Random) -> bytes:
    """`data` with one to four changes: bits, numbers, pieces cut or doubled, the end lost."""
    changed = bytearray(data)
    for _ in range(random.randint(1, 4)):
        _CHANGES[random.randrange(len(_CHANGES))](changed, random)
    return bytes(changed)


def damaged_document(document: Any, random: Random) -> Any:
    """A copy of a JSON document with one to three values replaced, removed, renamed or nested."""
    copy = json.loads(json.dumps(document))
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        copy = _damage_one(copy, random)
    return copy


def json_text(document: Any) -> bytes:
    """The document as Python's json writes it: NaN and infinity included."""
    return json.dumps(document).encode("utf-8", "surrogatepass")


def damaged_json(document: Any, random: Random) -> bytes:
    """A damaged document as text, now and then damaged as bytes as well."""
    text = json_text(damaged_document(document, random))
    share = random.random()
    if share < 0.15:
        return damaged_bytes(text, random)
    if share < 0.17:
        return b"[" * random.choice((100, 5_000, 200_000)) + text
    return text


def _damage_one(document: Any, random: Random) -> Any:
    places = list(_places(document))
    if not places or random.random() < 0.01:
        return _odd_value(random)
    holder, key = random.choice(places)
    choice = random.random()
    if choice < 0.7:
        holder[key] = _odd_value(random)
    elif choice < 0.8:
        del holder[key]
    elif choice < 0.9:
        other, other_key = random.choice(places)
        try:
            holder[key] = json.loads(json.dumps(other[other_key]))
        except (KeyError, IndexError):
            holder[key] = None
    elif isinstance(holder, dict):
        holder[str(_odd_value(random))[:80]] = holder.pop(key)
    else:
        holder.insert(key, _odd_value(random))
    return document


def _odd_value(random: Random) -> Any:
    """A copy: further damage may reach into a list or an object."""
    return deepcopy(random.choice(ODD_VALUES))


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) of a document."""
    if isinstance(document, dict):
        for key, value in document.items():
            yield document, key
            yield from _places(value)
    elif isinstance(document, list):
        for index, value in enumerate(document):
            yield document, index
            yield from _places(value)


def _flip_bit(data: bytearray, random: Random) -> None:
    if data:
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def _set_byte(data: bytearray, random: Random) -> None:
    if data:
        data[random.randrange(len(data))] = random.choice(
            (0, 1, 0x7F, 0x80, 0xFF, 0x0A, 0x22, 0x7B)
        )


def _set_number(data: bytearray, random: Random) -> None:
    """A little-endian number of 4 or 8 bytes becomes an extreme one."""
    width = random.choice((4, 8))
    if len(data) >= width:
        at = random.randrange(len(data) - width + 1)
        value = random.choice(
            (0, 1, 2 ** (8 * width - 1) - 1, 2 ** (8 * width - 1), 2 ** (8 * width) - 1)
        )
        data[at : at + width] = value.to_bytes(width, "little")


def _cut(data: bytearray, random: Random) -> None:
    start, end = _piece(data, random)
    del data[start:end]


def _double(data: bytearray, random: Random) -> None:
    start, end = _piece(data, random)
    data[end:end] = data[start:end]


def _overwrite(data: bytearray, random: Random) -> None:
    start, end = _piece(data, random)
    data[start:end] = random.randbytes(end - start)


def _truncate(data: bytearray, random: Random) -> None:
    del data[random.randrange(len(data) + 1) :]


def _piece(data: bytearray, random: Random) -> tuple[int, int]:
    start = random.randrange(len(data) + 1)
    return start, min(len(data), start + random.choice((1, 4, 16, 64, 1024)))


_CHANGES = (_flip_bit, _flip_bit, _set_byte, _set_number, _cut, _double, _overwrite, _truncate)
