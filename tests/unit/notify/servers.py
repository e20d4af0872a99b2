"""Servers that take alerts, or do not."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

CERTIFICATE = Path(__file__).with_name("localhost.pem")
HANG, DRIP = "hang", "drip"


class Request(NamedTuple):
    path: str
    headers: dict[str, str]
    body: bytes


class Hook:
    """An HTTP server. answers: what it does about each request, the last one about all others: a
    status, (status, headers), HANG (says nothing) or DRIP (a byte now and then)."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.requests: list[Request] = []
        self.answers: Sequence[Any] = [200]
        self.over = threading.Event()

    def next_answer(self, request: Request) -> Any:
        self.requests.append(request)
        return self.answers[min(len(self.requests), len(self.answers)) - 1]

    @property
    def keys(self) -> list[str]:
        return [request.headers["idempotency-key"] for request in self.requests]


class _Handler(BaseHTTPRequestHandler):
    hook: Hook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.hook.next_answer(Request(self.path, headers, body))
        if answer in (HANG, DRIP):
            self.close_connection = True
            while not self.hook.over.wait(0.02):
                if answer == DRIP:
                    self.wfile.write(b"H")
            return
        status, more = answer if isinstance(answer, tuple) else (answer, {})
        self.send_response(status)
        for name, value in more.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        pass


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *args: Any) -> None:
        """A client that went away is what some tests are about."""


@contextlib.contextmanager
def serving(port: int = 0, tls: bool = False) -> Iterator[Hook]:
    hook = Hook(port)
    handler = type("Handler", (_Handler,), {"hook": hook})
    server = _Quiet(("127.0.0.1", port), handler)
    if tls:
        trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trust.load_cert_chain(CERTIFICATE)
        server.socket = trust.wrap_socket(server.socket, server_side=True)
    hook.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield hook
    finally:
        hook.over.set()
        server.shutdown()
        thread.join()
        server.server_close()


def free_port() -> int:
    """Nobody listens there."""
    with contextlib.closing(socket.socket()) as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
