"""A page that others fetch over HTTP: read-only, for this machine unless told otherwise."""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import math
import os
import re
import socket
import threading
import time
import weakref
from collections.abc import Callable
from http.client import LineTooLong
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, BinaryIO, Final, NamedTuple
from urllib.parse import urlsplit

from stepscope.descriptor import identity_of, is_our_socket
from stepscope.errors import UsageError

__all__ = ["Page", "ScrapeServer", "is_loopback"]

_PATH: Final = "/metrics"
_MOST_CONNECTIONS: Final = 64
_REQUEST_S: Final = 2.0  # for all of a request to arrive
_LONGEST_S: Final = 10.0  # that a scrape may take, however slowly it reads
_MOST_REQUEST_BYTES: Final = 16 << 10
_LOOK_S: Final = 1.0  # how often the socket and open connections are checked
_PAUSE_S: Final = 0.1  # before the next try to accept a connection
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]*)(:[0-9]{0,5})?")


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
        self._waiting: dict[Any, float] = {}  # connection without a request yet → when it began
        self._answered: dict[Any, float] = {}  # the others, likewise
        self._opened: dict[Any, tuple[int, int] | None] = {}  # socket → what it was opened on
        self._goes_on = True
        super().__init__((str(found[4][0]), port), _Handler)
        self.is_private = is_loopback(str(self.server_address[0]))
        _servers.add(self)

    def server_bind(self) -> None:
        """Without the look-up of the host's name that http.server makes: DNS can hang."""
        self._opened[self.socket] = identity_of(self.socket.fileno())
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def get_request(self) -> Any:
        """Who connects while the process has no file descriptor left stays in the queue: without a
        pause it would be tried again and again, which takes a whole core."""
        try:
            if not self._is_ours(self.socket):
                raise OSError("the socket was closed")
            request, address = super().get_request()
            self._opened[request] = identity_of(request.fileno())
            return request, address
        except OSError:
            if self._goes_on:
                time.sleep(_PAUSE_S)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Above the limit the oldest connection goes, those first that have asked for nothing."""
        surplus = len(self._waiting) + len(self._answered) + 1 - _MOST_CONNECTIONS
        if surplus > 0:  # dicts are in the order of time
            for connection in [*self._waiting.copy(), *self._answered.copy()][:surplus]:
                self._end(connection)
        self._waiting[request] = time.monotonic()
        super().process_request(request, client_address)

    def answering(self, request: Any) -> None:
        """The request has arrived."""
        began_s = self._waiting.pop(request, None)
        if began_s is not None:
            self._answered[request] = began_s

    def shutdown_request(self, request: Any) -> None:
        self._waiting.pop(request, None)
        self._answered.pop(request, None)
        self._is_ours(request)  # forgets a number that is not, so that it is not closed
        self._opened.pop(request, None)
        super().shutdown_request(request)

    def serve(self) -> None:
        """Until `stop`, or until the program has closed the socket."""
        while self._goes_on and self._is_ours(self.socket):
            self.handle_request()
            now_s = time.monotonic()
            self._end_those_since(now_s - _REQUEST_S, now_s - _LONGEST_S)

    def stop(self) -> None:
        self._goes_on = False
        self._end(self.socket)  # has `handle_request` return
        self._end_those_since(math.inf, math.inf)

    def server_close(self) -> None:
        self._is_ours(self.socket)
        super().server_close()

    def _is_ours(self, sock: Any) -> bool:
        return is_our_socket(sock, self._opened.get(sock))

    def _end(self, sock: Any) -> None:
        """Whoever reads from it or writes to it fails now."""
        self._waiting.pop(sock, None)
        self._answered.pop(sock, None)
        if self._is_ours(sock):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _end_those_since(self, waiting_s: float, answered_s: float) -> None:
        for connections, limit_s in ((self._waiting, waiting_s), (self._answered, answered_s)):
            for connection, since_s in list(connections.items()):
                if since_s < limit_s:
                    self._end(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A scraper that goes away is its own affair."""


class _Handler(BaseHTTPRequestHandler):
    """Answers one request, then closes: nothing behind it can pass for another."""

    server: _Server
    timeout = _REQUEST_S
    server_version, sys_version = "stepscope", ""
    # For an error before the first line was read.
    command, requestline, request_version = "", "", "HTTP/1.0"

    def setup(self) -> None:
        super().setup()
        self.rfile: Any = _Bounded(self.rfile)

    def handle(self) -> None:
        try:
            super().handle()
        except LineTooLong:
            self.send_error(414)

    def parse_request(self) -> bool:
        if not super().parse_request():
            return False
        self.server.answering(self.connection)
        self.connection.settimeout(_LONGEST_S)
        wrong = self._wrong()
        if wrong:
            self.send_error(400, wrong)
        return not wrong

    def send_response_only(self, code: int, message: str | None = None) -> None:
        if self.request_version == "HTTP/0.9":  # it would get no status line
            self.request_version = "HTTP/1.0"
        super().send_response_only(code, message)

    def _wrong(self) -> str:
        """What no client means, or two readers would understand in two ways; "": nothing."""
        hosts = self.headers.get_all("Host", [])
        lengths = self.headers.get_all("Content-Length", [])
        if self.headers.defects:
            return "A header is malformed"
        if len(hosts) > 1 or (not hosts and self.request_version >= "HTTP/1.1"):
            return "There has to be one Host header"
        if "Transfer-Encoding" in self.headers or lengths not in ([], ["0"]):
            return "A request has no body here"
        try:
            self._host = urlsplit(self.path).netloc if self.path[:1] != "/" else "".join(hosts)
        except ValueError:
            return "The address is malformed"
        return "" if _HOST.fullmatch(self._host) else "The host is malformed"

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
        if self.server.is_private and not is_loopback(_name_in(self._host)):
            return 403, "Ask for it as localhost or 127.0.0.1"
        if self.headers.get("Origin"):
            return 403, "Not for pages in a browser"
        if self.server.token and not self._shows_token():
            return 401, "This needs the token"
        if urlsplit(self.path).path != _PATH:
            return 404, f"There is only {_PATH}"
        return None

    def _shows_token(self) -> bool:
        shown = self.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
        return hmac.compare_digest(shown, f"Bearer {self.server.token}".encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Standard error is the program's."""


class _Bounded:
    """What a handler reads its request from: so many bytes, and no more."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._left = file, _MOST_REQUEST_BYTES

    def readline(self, most: int) -> bytes:
        line = self._file.readline(min(most, self._left + 1))
        self._left -= len(line)
        if self._left < 0:
            raise LineTooLong("request")
        return line

    def close(self) -> None:
        self._file.close()


def _name_in(host: str) -> str:
    """The host of a Host header, without its port."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    return name.strip("[]").lower()


def _leave_in_child() -> None:
    """A forked child does not answer, and would keep the port when its parent is gone."""
    for server in list(_servers):
        with contextlib.suppress(OSError):
            server.server_close()


_servers: weakref.WeakSet[_Server] = weakref.WeakSet()
os.register_at_fork(after_in_child=_leave_in_child)
