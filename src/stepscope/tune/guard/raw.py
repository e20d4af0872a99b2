"""The operating system's own calls, taken before any of them is replaced.

Everything in this folder calls these: the names in `os` lead back here once `install` has run.
"""

from __future__ import annotations

from _io import open as open_file
from os import (
    access,
    chdir,
    chmod,
    close,
    copy_file_range,
    getcwd,
    link,
    listdir,
    lstat,
    mkdir,
    mkfifo,
    mknod,
    open,
    read,
    readlink,
    rename,
    rmdir,
    scandir,
    stat,
    statvfs,
    symlink,
    unlink,
    utime,
    write,
)

__all__ = [
    "access",
    "chdir",
    "chmod",
    "close",
    "copy_file_range",
    "getcwd",
    "link",
    "listdir",
    "lstat",
    "mkdir",
    "mkfifo",
    "mknod",
    "open",
    "open_file",
    "read",
    "readlink",
    "rename",
    "rmdir",
    "scandir",
    "stat",
    "statvfs",
    "symlink",
    "unlink",
    "utime",
    "write",
]
