"""Pickles of plain data, read without ever running what they say.

A pickle is a program for a small machine. This is that machine with only the instructions that
build plain data: numbers, strings, lists, tuples, and dicts with strings for keys. It has none that
looks up a name, calls, builds an object or asks an extension registry, so a file that wants that is
refused at the first such byte. It is written out here, and not an Unpickler with its find_class
closed, because that one still takes what a file declares at its word (the place in the memo, the
length of a string) and finds registered extensions in a cache that find_class does not see.

What is built is bounded by an estimate of the memory it takes, kept before each object is made.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from stepscope.errors import FormatError

__all__ = ["load_plain_pickle"]

_MAX_HELD_BYTES: Final = 1 << 30
_MAX_STACK: Final = 20_000  # pickle writes long lists in pieces of 1,000
_MAX_MARKS: Final = 100
_MAX_INT_BYTES: Final = 9  # an address of 64 bits, and its sign
_PROTOCOLS: Final = (2, 3, 4, 5)
_STOP: Final = ord(".")
_U8, _U16, _U32, _U64, _I32, _F64 = map(struct.Struct, ("<B", "<H", "<I", "<Q", "<i", ">d"))
# What objects of CPython take, about. A string: what its characters take at most comes on top.
_OBJECT, _ITEM, _PAIR, _TEXT = 64, 8, 104, 56


class _RefusedError(Exception):
    """Why this is not a pickle of plain data."""


def load_plain_pickle(content: bytes, name: str) -> Any:
    """The value in it. FormatError: it is torn, or anything but plain data; nothing of it ran."""
    try:
        return _Machine(content).run()
    except _RefusedError as refused:
        why = str(refused)
    except (IndexError, struct.error):
        why = "it is torn"
    except UnicodeDecodeError:
        why = "a text in it is no UTF-8"
    raise FormatError(
        f"{name} is not a pickle of plain data, as memory snapshots are: {why}. Nothing of it was"
        " run. Make it again with torch.cuda.memory._dump_snapshot."
    )


class _Machine:
    """`stack`: what was built since the last mark; `marked`: the stacks below it."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0
        self._held_bytes = 0
        self._stack: list[Any] = []
        self._marked: list[list[Any]] = []
        self._memo: dict[int, Any] = {}
        self._instructions = self._table()

    def run(self) -> Any:
        if self._content[:1] != b"\x80" or self._content[1] not in _PROTOCOLS:
            raise _RefusedError("it is of another pickle protocol than 2 to 5")
        self._at = 2
        content, instructions = self._content, self._instructions
        while (code := content[self._at]) != _STOP:
            self._at += 1
            act = instructions.get(code)
            if act is None:
                raise _RefusedError(
                    f"byte {self._at - 1:,} asks for instruction 0x{code:02x}, which plain data"
                    " does not need"
                )
            act()
        if len(self._stack) != 1 or self._marked:
            raise _RefusedError("it ends in the middle of a value")
        return self._stack[0]

    def _table(self) -> dict[int, Callable[[], None]]:
        """The instructions by their byte, named as in Lib/pickletools.py."""
        return {
            ord("("): self._mark,
            ord("N"): lambda: self._push(None, 0),
            0x88: lambda: self._push(True, 0),  # NEWTRUE
            0x89: lambda: self._push(False, 0),  # NEWFALSE
            ord("K"): self._number(_U8),  # BININT1
            ord("M"): self._number(_U16),  # BININT2
            ord("J"): self._number(_I32),  # BININT
            ord("G"): self._number(_F64),  # BINFLOAT
            0x8A: self._long,  # LONG1
            0x8C: self._text(_U8),  # SHORT_BINUNICODE
            ord("X"): self._text(_U32),  # BINUNICODE
            0x8D: self._text(_U64),  # BINUNICODE8
            ord("]"): lambda: self._push([], _OBJECT),
            ord("}"): lambda: self._push({}, _OBJECT),
            ord(")"): lambda: self._push((), 0),
            0x85: lambda: self._tuple_of(1),  # TUPLE1
            0x86: lambda: self._tuple_of(2),
            0x87: lambda: self._tuple_of(3),
            ord("t"): self._tuple,
            ord("a"): self._append,
            ord("e"): self._appends,
            ord("s"): self._set_item,
            ord("u"): self._set_items,
            0x94: lambda: self._remember(len(self._memo)),  # MEMOIZE
            ord("q"): lambda: self._remember(self._unpack(_U8)),  # BINPUT
            ord("r"): lambda: self._remember(self._unpack(_U32)),  # LONG_BINPUT
            ord("h"): self._recall(_U8),  # BINGET
            ord("j"): self._recall(_U32),  # LONG_BINGET
            0x95: self._frame,
        }

    def _hold(self, more_bytes: int) -> None:
        self._held_bytes += more_bytes
        if self._held_bytes > _MAX_HELD_BYTES:
            raise _RefusedError(f"what it builds takes more than {_MAX_HELD_BYTES >> 20} MiB")

    def _push(self, value: Any, takes_bytes: int) -> None:
        stack = self._stack
        if len(stack) >= _MAX_STACK:
            raise _RefusedError("it is nested too deeply")
        self._held_bytes += takes_bytes + _ITEM
        if self._held_bytes > _MAX_HELD_BYTES:
            self._hold(0)
        stack.append(value)

    def _take(self, count: int) -> bytes:
        """The next bytes of the file: as many as it has, whatever it declares."""
        taken = self._content[self._at : self._at + count]
        if len(taken) < count:
            raise _RefusedError("it is torn")
        self._at += count
        return taken

    def _frame(self) -> None:
        """How long the next piece is: a help for those who read piece by piece."""
        self._take(_U64.size)

    def _unpack(self, layout: struct.Struct) -> Any:
        (value,) = layout.unpack_from(self._content, self._at)
        self._at += layout.size
        return value

    def _number(self, layout: struct.Struct) -> Callable[[], None]:
        return lambda: self._push(self._unpack(layout), _ITEM)

    def _long(self) -> None:
        count = self._unpack(_U8)
        if count > _MAX_INT_BYTES:
            raise _RefusedError("it has a number of more than 64 bits")
        self._push(int.from_bytes(self._take(count), "little", signed=True), _ITEM)

    def _text(self, layout: struct.Struct) -> Callable[[], None]:
        def read() -> None:
            length = self._unpack(layout)
            if length > len(self._content):
                raise _RefusedError("it is torn")
            self._hold(4 * length)
            self._push(self._take(length).decode("utf-8", "surrogatepass"), _TEXT)

        return read

    def _mark(self) -> None:
        if len(self._marked) >= _MAX_MARKS:
            raise _RefusedError("it is nested too deeply")
        self._marked.append(self._stack)
        self._stack = []

    def _to_mark(self) -> list[Any]:
        items, self._stack = self._stack, self._marked.pop()
        return items

    def _tuple_of(self, count: int) -> None:
        items = [self._stack.pop() for _ in range(count)]
        self._push(tuple(reversed(items)), _OBJECT)

    def _tuple(self) -> None:
        items = self._to_mark()
        self._push(tuple(items), _OBJECT + _ITEM * len(items))

    def _append(self) -> None:
        item = self._stack.pop()
        self._top(list).append(item)
        self._hold(_ITEM)

    def _appends(self) -> None:
        items = self._to_mark()
        self._hold(_ITEM * len(items))
        self._top(list).extend(items)

    def _set_item(self) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        self._set(self._top(dict), [key, value])

    def _set_items(self) -> None:
        items = self._to_mark()
        self._set(self._top(dict), items)

    def _set(self, target: dict[str, Any], items: list[Any]) -> None:
        keys = items[::2]
        if len(items) % 2 or not all(type(key) is str for key in keys):
            raise _RefusedError("a dict in it has something else than text for a key")
        self._hold(_PAIR * len(keys))
        target.update(zip(keys, items[1::2], strict=True))

    def _top(self, kind: type) -> Any:
        top = self._stack[-1]
        if type(top) is not kind:
            raise _RefusedError("it puts something into what is no list and no dict")
        return top

    def _remember(self, place: int) -> None:
        self._hold(_PAIR)
        self._memo[place] = self._stack[-1]

    def _recall(self, layout: struct.Struct) -> Callable[[], None]:
        def read() -> None:
            (place,) = layout.unpack_from(self._content, self._at)
            self._at += layout.size
            if place not in self._memo:
                raise _RefusedError("it refers to something that is not in it")
            self._push(self._memo[place], 0)

        return read
