"""Asks the kernel to refuse this process all writing outside some folders, for good.

Landlock (Linux 5.13 on) needs no privileges, covers every child process and every library, and
cannot be taken back. It says nothing about reading, nor about modes, owners and times of files.
"""

from __future__ import annotations

import ctypes
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["available", "restrict"]

# linux/landlock.h; the numbers of the calls are the same on all processors.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_GET_VERSION = 1
_RULE_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38

_WRITE_FILE = 1 << 1
_MAKE_AND_REMOVE = sum(1 << bit for bit in range(4, 13))  # REMOVE_DIR … MAKE_SYM
_REFER = 1 << 13  # moving between folders
_TRUNCATE = 1 << 14

_LEAST_ABI = 2  # the first forbids all moves between folders, allowed ones too
_ABI_OF_TRUNCATE = 3


class _Ruleset(ctypes.Structure):
    _fields_ = (("handled_access_fs", ctypes.c_uint64),)


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def available() -> bool:
    """Whether this kernel can keep a process to some folders."""
    return _abi() >= _LEAST_ABI


def restrict(allowed: Sequence[Path | str]) -> None:
    """Forbid this thread and all its children to create, write, truncate, remove or move anything
    outside `allowed`: folders, and files that are there already. What is not there is left out.

    Raises OSError where the kernel cannot.
    """
    abi = _abi()
    if abi < _LEAST_ABI:
        raise OSError("this kernel has no Landlock (Linux 5.19 or newer, switched on)")
    rights = _WRITE_FILE | _MAKE_AND_REMOVE | _REFER
    if abi >= _ABI_OF_TRUNCATE:
        rights |= _TRUNCATE
    attributes = _Ruleset(rights)
    rules = _call(_CREATE_RULESET, ctypes.byref(attributes), ctypes.sizeof(attributes), 0)
    try:
        for path in allowed:
            _allow(rules, path, rights)
        _no_new_privileges()
        _call(_RESTRICT_SELF, rules, 0)
    finally:
        os.close(rules)


def _allow(rules: int, path: Path | str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _WRITE_FILE | _TRUNCATE
        rule = _PathBeneath(rights, descriptor)
        _call(_ADD_RULE, rules, _RULE_PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(descriptor)


def _abi() -> int:
    """0: there is none, or it is switched off."""
    try:
        return _call(_CREATE_RULESET, None, 0, _GET_VERSION)
    except OSError:
        return 0


def _call(number: int, *args: object) -> int:
    numbers = [ctypes.c_long(arg) if isinstance(arg, int) else arg for arg in args]
    return _checked(_libc().syscall(ctypes.c_long(number), *numbers))


def _no_new_privileges() -> None:
    """The kernel's condition: programs that change the user (sudo) do not do so any more."""
    zero = ctypes.c_ulong(0)
    _checked(_libc().prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), zero, zero, zero))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
