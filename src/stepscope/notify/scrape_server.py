"""A page that others fetch over HTTP: read-only, for this machine unless told otherwise."""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import math
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, NamedTuple

from stepscope.descriptor import identity_of
from stepscope.errors import UsageError

__all__ = ["Page", "ScrapeServer", "is_loopback"]

_PATH: Final = "/metrics"
_MOST_CONNECTIONS: Final = 16
_LONGEST_S: Final = 10.0  # that a scrape may take, however slowly it reads
_LOOK_S: Final = 1.0  # how often the socket and open connections are looked at
_PAUSE_S: Final = 0.1  # before the next try to accept a connection


class Page(NamedTuple):
    content: bytes
    content_type: str


class ScrapeServer:
    """Serves `GET /metrics` from threads of its own. render: Accept header → the page.

    On loopback, requests that name another host are refused: a page in a browser could have made
    its own name point here. token: what scrapers have to show; "": nothing.
    """

    def __init__(
        self, address: str, port: int, render: Callable[[str], Page], token: str = ""
    ) -> None:
        try:
            self._server = _Server(address, port, render, token)
        except OSError as error:
            raise UsageError(
                f"The metrics cannot be served at {address}, port {port} ({error.strerror or error}"
                "): choose another port, or 0 for any that is free."
            ) from error
        self._thread = threading.Thread(
            target=self._server.serve, name="stepscope-scrape", daemon=True
        )
        self._thread.start()

    @property
    def address(self) -> str:
        """Host and port as scrapers write them."""
        host, port = self._server.server_address[:2]
        host = str(host)
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def close(self) -> None:
        self._server.stop()
        self._thread.join()
        self._server.server_close()


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a slow scraper does not hold up the end of the run
    request_queue_size = 128
    timeout = _LOOK_S

    def __init__(self, address: str, port: int, render: Callable[[str], Page], token: str) -> None:
        found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
        self.address_family = found[0]
        self.render, self.token = render, token
        self._open: dict[Any, float] = {}  # connection → when it began
        self._goes_on = True
        super().__init__((str(found[4][0]), port), _Handler)
        self.is_private = is_loopback(str(self.server_address[0]))
        _servers.add(self)

    def server_bind(self) -> None:
        """Without the look-up of the host's name that http.server makes: DNS can hang."""
        self._opened = identity_of(self.socket.fileno())
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def get_request(self) -> Any:
        """Who connects while the process has no file descriptor left stays in the queue: without a
        pause it would be tried again and again, which takes a whole core."""
        try:
            if not self._is_listening():
                raise OSError("the socket was closed")
            return super().get_request()
        except OSError:
            if self._goes_on:
                time.sleep(_PAUSE_S)
            raise

    def verify_request(self, request: Any, client_address: Any) -> bool:
        return len(self._open) < _MOST_CONNECTIONS

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open[request] = time.monotonic()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.pop(request, None)
        super().shutdown_request(request)

    def serve(self) -> None:
        """Until `stop`, or until the program has closed the socket."""
        while self._goes_on and self._is_listening():
            self.handle_request()
            self._end_those_since(time.monotonic() - _LONGEST_S)

    def stop(self) -> None:
        self._goes_on = False
        if self._is_listening():
            _end(self.socket)  # has `handle_request` return
        self._end_those_since(math.inf)

    def server_close(self) -> None:
        self._is_listening()
        super().server_close()

    def _is_listening(self) -> bool:
        """False: the program has closed our socket (descriptor.py). Its number is forgotten then,
        for it may be that of a file of the program."""
        if identity_of(self.socket.fileno()) == self._opened:
            return True
        self.socket.detach()
        return False

    def _end_those_since(self, began_s: float) -> None:
        for connection, since_s in list(self._open.items()):
            if since_s < began_s:
                _end(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A scraper that goes away is its own affair."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _LONGEST_S
    server_version, sys_version = "stepscope", ""

    def do_GET(self) -> None:
        refused = self._refused()
        if refused:
            self.send_error(*refused)
            return
        page = self.server.render(self.headers.get("Accept", ""))
        self.send_response(200)
        self.send_header("Content-Type", page.content_type)
        self.send_header("Content-Length", str(len(page.content)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page.content)

    do_HEAD = do_GET  # noqa: N815 - as http.server calls them

    def _refused(self) -> tuple[int, str] | None:
        if self.server.is_private and not is_loopback(_name_in(self.headers.get("Host", ""))):
            return 403, "Ask for it as localhost or 127.0.0.1"
        if self.headers.get("Origin"):
            return 403, "Not for pages in a browser"
        if self.server.token and not self._shows_token():
            return 401, "This needs the token"
        if self.path.partition("?")[0] != _PATH:
            return 404, f"There is only {_PATH}"
        return None

    def _shows_token(self) -> bool:
        shown = self.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
        return hmac.compare_digest(shown, f"Bearer {self.server.token}".encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Standard error is the program's."""


def _name_in(host: str) -> str:
    """The host of a Host header, without its port."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    return name.strip("[]").lower()


def _end(connection: Any) -> None:
    """Whoever reads from it or writes to it fails now."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _leave_in_child() -> None:
    """A forked child does not answer, and would keep the port when its parent is gone."""
    for server in list(_servers):
        with contextlib.suppress(OSError):
            server.server_close()


_servers: weakref.WeakSet[_Server] = weakref.WeakSet()
os.register_at_fork(after_in_child=_leave_in_child)
