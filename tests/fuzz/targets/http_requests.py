"""HTTP requests to the metrics page, over a socket."""

from __future__ import annotations

import contextlib
import re
import socket
from pathlib import Path
from random import Random

from stepscope.notify.scrape_server import Page, ScrapeServer
from tests.fuzz.damage import damaged_bytes
from tests.fuzz.harness import Feed, Target

CONTENT = b"stepscope_steps_total 42\n"
LINES = [
    b"Host: localhost", b"Host: 127.0.0.1:9464", b"Host: evil.example", b"Host: [::1]", b"Host:",
    b"Accept: application/openmetrics-text", b"Origin: http://evil.example", b"Connection: close",
    b"Connection: keep-alive", b"Content-Length: 0", b"Content-Length: 10", b"Content-Length: -1",
    b"Transfer-Encoding: chunked", b"Expect: 100-continue", b"Authorization: Bearer s3cret",
    b"Authorization: Basic \xff\xfe", b" folded: header", b"no colon", b"X: " + b"x" * 17_000,
    b"Upgrade: h2c", b"X-\x00: \x0b", b"Range: bytes=0-1",
]  # fmt: skip
METHODS = [b"GET", b"GET", b"GET", b"HEAD", b"POST", b"OPTIONS", b"CONNECT", b"get", b"\x16\x03"]
PATHS = [
    b"/metrics", b"/metrics", b"/metrics?x=1", b"/", b"//metrics", b"http://localhost/metrics",
    b"http://evil.example/metrics", b"http://[::1/metrics", b"*", b"/../metrics", b"/%6detrics",
    b"/metrics#x", b"localhost:80", b"/" + b"x" * 17_000,
]  # fmt: skip
VERSIONS = [b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2.0", b"HTTP/1.1.1", b""]
BLANK = re.compile(rb"\n\r?\n")
ANSWER = re.compile(rb"HTTP/1\.0 (\d{3}) [^\r\n]*\r\n(?:[^\r\n]+\r\n)*\r\n", re.DOTALL)


def metrics_page(folder: Path) -> Feed:
    """The answer is complete and the only one, and the metrics go to nobody from elsewhere."""
    server = ScrapeServer("127.0.0.1", 0, lambda _: Page(CONTENT, "text/plain"), "s3cret")
    host, _, port = server.address.rpartition(":")
    failures: list[BaseException] = []
    server._server.handle_error = lambda *_: failures.append(_current())  # type: ignore[method-assign]

    def feed(random: Random) -> None:
        request = _request(random)
        answer = _ask((host, int(port)), request, random)
        found = ANSWER.match(answer)
        assert found or not answer, answer[:200]
        assert answer.count(b"HTTP/1.0 ") <= 1, answer
        if CONTENT in answer:
            assert found is not None
            assert found[1] == b"200"
            assert b"s3cret" in request
            assert len(re.findall(rb"(?im)^host[ \t]*:", BLANK.split(request)[0])) <= 1
        if failures:
            raise failures.pop()

    return feed


def _current() -> BaseException:
    import sys

    error = sys.exc_info()[1]
    assert error is not None
    return error


def _request(random: Random) -> bytes:
    first = b" ".join((random.choice(METHODS), random.choice(PATHS), random.choice(VERSIONS)))
    lines = [first, *random.choices(LINES, k=random.randint(0, 6))]
    if random.random() < 0.5:
        lines += [b"Host: localhost", b"Authorization: Bearer s3cret"]
    request = random.choice((b"\r\n", b"\r\n", b"\r\n", b"\n")).join([*lines, b"", b""])
    if random.random() < 0.3:
        request += request  # a second one behind it
    return damaged_bytes(request, random) if random.random() < 0.5 else request


def _ask(place: tuple[str, int], request: bytes, random: Random) -> bytes:
    with socket.create_connection(place, 20) as connection:
        answer = b""
        with contextlib.suppress(OSError):  # it has answered and closed already
            half = random.randrange(len(request) + 1) if random.random() < 0.1 else len(request)
            connection.sendall(request[:half])
            connection.sendall(request[half:])
            connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            while piece := connection.recv(65536):
                answer += piece
    return answer


TARGETS = [Target("http", metrics_page)]
