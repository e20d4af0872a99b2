"""A limit on the whole of an exchange: a side that sends a byte now and then holds nobody up."""

from __future__ import annotations

import io
import socket
import time
from typing import Any

from stepscope.descriptor import identity_of, is_our_socket

__all__ = ["Deadline", "TimedReader", "TimedSocket"]


class Deadline:
    def __init__(self, total_s: float) -> None:
        self._until = time.monotonic() + total_s

    def left_s(self) -> float:
        """TimeoutError: nothing is left."""
        left_s = self._until - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        return left_s

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._until


class TimedReader(io.RawIOBase):
    """Reads from a socket until the deadline."""

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._sock, self._deadline = sock, deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(self._deadline.left_s())
        return self._sock.recv_into(buffer)


class TimedSocket:
    """What http.client asks of a socket, until the deadline."""

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._sock, self._deadline = sock, deadline
        self._opened = identity_of(sock.fileno())

    def sendall(self, content: bytes) -> None:
        self._sock.settimeout(self._deadline.left_s())
        self._sock.sendall(content)  # its timeout is one of all of it

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(TimedReader(self._sock, self._deadline))

    def close(self) -> None:
        is_our_socket(self._sock, self._opened)
        self._sock.close()
