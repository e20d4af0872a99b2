"""A copy of what is to be saved, as it is now: made quickly, and saved at leisure."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from io import BytesIO
from types import BuiltinFunctionType, FunctionType
from typing import Any, Final

from stepscope.collect.limits import OwnLimits

__all__ = ["Snapshots", "Taken", "Unlike"]

_CHECKED_BYTES: Final = 64 << 20  # memory that may be taken before asking how much is left
_SPARE: Final = 3  # times as much has to be left as is taken


class Unlike(Exception):  # noqa: N818 - no failure: there is another way to save it
    """It holds something that cannot be copied so that it would be saved alike; says what."""


class Taken:
    """value: the copy; storages: what it lies in, to be given back."""

    def __init__(self, value: Any, storages: list[Any]) -> None:
        self.value, self.storages = value, storages


class Snapshots:
    """Copies keep what torch.save keeps: tensors that share memory, objects that are the same.

    The memory of a copy is used again for the next one: fresh pages cost more than the copying.
    """

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._free: dict[int, list[Any]] = {}
        self._limits: OwnLimits | None = None
        self.plain = frozenset((
            type(None), bool, int, float, complex, str, bytes, type, FunctionType,
            BuiltinFunctionType, torch.dtype, torch.device, torch.Size, torch.layout,
        ))  # fmt: skip

    def take(self, value: Any) -> Taken:
        """Raises Unlike."""
        copying = _Copying(self._torch, self)
        try:
            with self._torch.no_grad():
                return Taken(copying.copy(value), list(copying.storages.values()))
        except BaseException as error:
            self.give_back(Taken(None, list(copying.storages.values())))
            if isinstance(error, RecursionError):
                raise Unlike("it refers to itself") from error
            raise

    def give_back(self, taken: Taken) -> None:
        for storage in taken.storages:
            self._free.setdefault(storage.nbytes(), []).append(storage)

    def clear(self) -> None:
        self._free.clear()

    def storage(self, size_bytes: int, fresh_bytes: int) -> Any:
        """fresh_bytes: taken anew so far. Raises Unlike where memory is short."""
        free = self._free.get(size_bytes)
        if free:
            return free.pop()
        if (fresh_bytes + size_bytes) // _CHECKED_BYTES > fresh_bytes // _CHECKED_BYTES:
            self._limits = self._limits or OwnLimits()
            use = self._limits.nearest()
            if use is not None and use.left_bytes < _SPARE * size_bytes:
                raise Unlike("there is too little memory for a copy")
        return self._torch.UntypedStorage(size_bytes)


class _Copying:
    """One copy."""

    def __init__(self, torch: Any, snapshots: Snapshots) -> None:
        self._torch, self._snapshots, self._plain = torch, snapshots, snapshots.plain
        self._same: dict[int, tuple[Any, Any]] = {}  # id → what is kept alive, its copy
        self.storages: dict[int, Any] = {}
        self._fresh_bytes = 0

    def copy(self, value: Any) -> Any:
        kind = type(value)
        if kind in self._plain or isinstance(value, type):
            return value
        known = self._same.get(id(value))
        if known is not None:
            return known[1]
        if isinstance(value, self._torch.Tensor):
            return self._keep(value, self._tensor(value))
        if kind in (dict, OrderedDict):
            return self._dict(value)
        if kind is list:
            new_list = self._keep(value, [])
            new_list.extend(map(self.copy, value))
            return new_list
        if kind in (tuple, set, frozenset):
            return self._keep(value, kind(map(self.copy, value)))
        return self._keep(value, self._other(value))

    def _keep(self, value: Any, new: Any) -> Any:
        self._same[id(value)] = (value, new)
        return new

    def _dict(self, value: Any) -> Any:
        new = self._keep(value, type(value)())
        for key, one in value.items():
            new[self.copy(key)] = self.copy(one)
        if getattr(value, "__dict__", None):  # the versions that state_dict() tells of
            new.__dict__.update({name: self.copy(one) for name, one in vars(value).items()})
        return new

    def _tensor(self, tensor: Any) -> Any:
        torch = self._torch
        is_parameter = type(tensor) is torch.nn.Parameter
        if (
            not (is_parameter or type(tensor) is torch.Tensor)
            or tensor.device.type != "cpu"
            or tensor.layout != torch.strided
            or tensor.is_quantized
            or tensor.is_conj()
            or tensor.is_neg()
            or tensor._backward_hooks
            or vars(tensor)
        ):
            raise Unlike(f"it holds a {type(tensor).__name__} of a kind of its own")
        new = torch.empty(0, dtype=tensor.dtype, device="cpu").set_(
            self._storage(tensor.untyped_storage()),
            tensor.storage_offset(),
            tensor.size(),
            tensor.stride(),
        )
        if is_parameter:
            return torch.nn.Parameter(new, requires_grad=tensor.requires_grad)
        return new.requires_grad_() if tensor.requires_grad else new

    def _storage(self, storage: Any) -> Any:
        found = self.storages.get(storage._cdata)
        if found is None:
            size_bytes = storage.nbytes()
            found = self._snapshots.storage(size_bytes, self._fresh_bytes)
            self._fresh_bytes += size_bytes
            self.storages[storage._cdata] = found
            self._keep(storage, found)
            found.copy_(storage)
        return found

    def _other(self, value: Any) -> Any:
        """An object that pickle can take: what comes back is pickled alike later."""
        buffer = BytesIO()
        try:
            _NoTensors(buffer, self._torch.Tensor).dump(value)
            return pickle.loads(buffer.getbuffer())  # our own bytes of a moment ago
        except Exception as error:
            raise Unlike(f"it holds a {type(value).__name__}") from error


class _NoTensors(pickle.Pickler):
    """Tensors may share memory with others, which is lost here."""

    def __init__(self, buffer: BytesIO, tensor: type) -> None:
        super().__init__(buffer, protocol=pickle.HIGHEST_PROTOCOL)
        self._tensor = tensor

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, self._tensor):
            raise Unlike("it holds a tensor")
        return NotImplemented
