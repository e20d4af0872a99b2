"""Receivers of alerts that do not work: one hangs, one answers 500, one refuses."""

from __future__ import annotations

import functools
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["dead_sinks"]


class _Failing(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(500)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@functools.cache
def dead_sinks() -> tuple[str, ...]:
    """Their addresses. They stay as long as the benchmark runs."""
    hanging = socket.create_server(("127.0.0.1", 0), backlog=64)  # nobody accepts
    _kept.append(hanging)
    failing = ThreadingHTTPServer(("127.0.0.1", 0), _Failing)
    threading.Thread(target=failing.serve_forever, daemon=True).start()
    with socket.create_server(("127.0.0.1", 0)) as closed:
        refusing = closed.getsockname()[1]
    ports = (hanging.getsockname()[1], failing.server_address[1], refusing)
    return tuple(f"http://127.0.0.1:{port}/" for port in ports)


_kept: list[socket.socket] = []
