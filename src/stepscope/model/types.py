"""What kind of thing is in the way, in the words of the specifications; users may add their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

__all__ = ["BottleneckType"]


class _Types(type):
    """Makes the class read like an enumeration: iteration, `in`, `[name]`, `.NAME`."""

    _by_value: dict[str, BottleneckType]

    def __iter__(cls) -> Iterator[BottleneckType]:
        return iter(list(cls._by_value.values()))

    def __len__(cls) -> int:
        return len(cls._by_value)

    def __contains__(cls, value: object) -> bool:
        return isinstance(value, BottleneckType) or (
            isinstance(value, str) and value in cls._by_value
        )

    def __getitem__(cls, name: str) -> BottleneckType:
        for one in cls:
            if one.name == name:
                return one
        raise KeyError(name)

    def __getattr__(cls, name: str) -> BottleneckType:
        """Types that were added: `BottleneckType.TOKENISING`."""
        if not name.startswith("_"):
            for one in cls._by_value.values():
                if one.name == name:
                    return one
        raise AttributeError(f"{cls.__name__} has no type {name!r}: see {cls.__name__}.register()")


class BottleneckType(metaclass=_Types):
    """One of the types below, or one that `register` added. Each exists once: compare with `is`.

    The specifications have an Enum here, which cannot be extended; they also want types of the
    user's own.

    >>> BottleneckType("cpu_bound") is BottleneckType.CPU_BOUND
    True
    >>> BottleneckType.register("tokenising").name
    'TOKENISING'
    """

    DATA_LOADING: ClassVar[BottleneckType]
    PREPROCESSING: ClassVar[BottleneckType]
    MEMORY_ALLOCATION: ClassVar[BottleneckType]
    GPU_TRANSFER: ClassVar[BottleneckType]
    CPU_COMPUTATION: ClassVar[BottleneckType]
    I_O_OPERATION: ClassVar[BottleneckType]
    NETWORK_LATENCY: ClassVar[BottleneckType]
    SYNCHRONIZATION: ClassVar[BottleneckType]
    CPU_BOUND: ClassVar[BottleneckType]
    NUMERICS: ClassVar[BottleneckType]  # a loss that is no number any more, or runs away

    __slots__ = ("_value",)
    _value: str

    def __new__(cls, value: Any) -> BottleneckType:
        """The type of that value, as with an Enum; ValueError: there is none."""
        if isinstance(value, BottleneckType):
            return value
        found = cls._by_value.get(value) if isinstance(value, str) else None
        if found is None:
            raise ValueError(f"{value!r} is not a valid {cls.__name__}")
        return found

    @property
    def value(self) -> str:
        return self._value

    @property
    def name(self) -> str:
        return self._value.upper()

    @property
    def is_custom(self) -> bool:
        """Whether a user added it."""
        return self._value not in _BUILT_IN

    @classmethod
    def register(cls, value: Any) -> BottleneckType:
        """The type of that value, added if it is new. ValueError: it is no lower-case name."""
        if not isinstance(value, str) or not value.isidentifier() or value != value.lower():
            raise ValueError(
                f"A bottleneck type is named like a variable in lower case, as in 'tokenising', "
                f"not {value!r}."
            )
        if value.startswith("_") or hasattr(cls, value):
            raise ValueError(f"A bottleneck type cannot be called {value!r}: that name is taken.")
        found = cls._by_value.get(value)
        if found is None:
            made = object.__new__(cls)
            object.__setattr__(made, "_value", value)
            found = cls._by_value.setdefault(value, made)
        return found

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("A bottleneck type cannot be changed.")

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        """The same object again; a process that does not know the type yet adds it."""
        return _restored, (self._value,)

    def __repr__(self) -> str:
        return f"<BottleneckType.{self.name}: {self._value!r}>"

    def __str__(self) -> str:
        return f"BottleneckType.{self.name}"


def _restored(value: str) -> BottleneckType:
    return BottleneckType.register(value)


_BUILT_IN = frozenset(name.lower() for name in BottleneckType.__annotations__ if name.isupper())
BottleneckType._by_value = {}
for _name in BottleneckType.__annotations__:
    if _name.isupper():
        setattr(BottleneckType, _name, BottleneckType.register(_name.lower()))
