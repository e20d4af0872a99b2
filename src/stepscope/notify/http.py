"""One HTTP request, within a time, and nothing of it in messages but the place."""

from __future__ import annotations

import base64
import http.client
import re
import ssl
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from stepscope.errors import UsageError
from stepscope.notify.deadline import Deadline, TimedSocket
from stepscope.notify.secrets import place_of
from stepscope.notify.sink import SinkError

__all__ = ["Answer", "check_headers", "check_url", "post"]

_UNSAFE: Final = re.compile(r"[\x00-\x20\x7f-\x9f]")
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE: Final = re.compile(r"[\x20-\x7e\t]*")
_KEPT: Final = "/%:=&?~+!$,;'@()*-._[]"  # of an address as it is written
_SAME_REQUEST_ELSEWHERE: Final = (307, 308)
_MOST_REDIRECTS: Final = 3
_PORTS: Final = {"http": 80, "https": 443}


class Answer(NamedTuple):
    """retry_after_s: what the server asks for; None: it says nothing, or a date."""

    status: int
    retry_after_s: float | None


def check_url(url: str, what: str) -> None:
    """UsageError: nothing can be sent there. The message does not show it."""
    try:
        parts = urlsplit(url)
        known = parts.scheme in _PORTS and bool(parts.hostname) and parts.port != 0
    except ValueError:
        known = False
    if not known or _UNSAFE.search(url):
        raise UsageError(f"{what} is no address: it has to be http://… or https://… .")


def check_headers(headers: Mapping[str, str], what: str) -> None:
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise UsageError(f"{what}: {name!r} is not the name of a header.")
        if not _HEADER_VALUE.fullmatch(value):
            raise UsageError(f"{what}: the value of {name} holds what a header cannot.")


def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    timeout_s: float,
    context: ssl.SSLContext | None = None,
) -> Answer:
    """What the server said; what else it says is not read. SinkError: it said nothing in time.

    Redirects are followed on the same server alone, where they ask for the same request: headers
    and addresses hold secrets that are meant for it.
    """
    deadline = Deadline(timeout_s)
    try:
        for _ in range(_MOST_REDIRECTS):
            answer, moved = _exchange(urlsplit(url), body, headers, deadline, context)
            if moved is None:
                return answer
            url = _next_url(url, moved)
    except TimeoutError as error:
        raise SinkError(f"{place_of(url)} did not answer within {timeout_s:g} s.") from error
    except ssl.SSLCertVerificationError as error:
        raise SinkError(
            f"{place_of(url)} has no certificate that can be trusted ({error.verify_message})."
        ) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise SinkError(f"{place_of(url)} cannot be reached ({reason}).") from error
    raise SinkError(f"{place_of(url)} sends from one address to the next.")


def _exchange(
    parts: SplitResult,
    body: bytes,
    headers: Mapping[str, str],
    deadline: Deadline,
    context: ssl.SSLContext | None,
) -> tuple[Answer, str | None]:
    """The answer, and where to go instead if that is what it says."""
    connection, target = _connection(parts, deadline, context)
    try:
        connection.connect()
        connection.sock = TimedSocket(connection.sock, deadline)
        connection.request("POST", target, body, {**_credentials(parts), **headers})
        response = connection.getresponse()
        location = response.getheader("Location")
        moved = location if response.status in _SAME_REQUEST_ELSEWHERE else None
        return Answer(response.status, _seconds(response.getheader("Retry-After"))), moved
    finally:
        connection.close()


def _connection(parts: SplitResult, deadline: Deadline, context: ssl.SSLContext | None) -> Any:
    """To the server, or to the proxy that the environment names; and what to ask for there."""
    host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    target = quote(f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}", safe=_KEPT)
    timeout_s = deadline.left_s()
    proxy = None if proxy_bypass(host) else getproxies().get(parts.scheme)
    at = None if proxy is None else urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    there = (host, port) if at is None else (at.hostname or "", at.port or 80)
    if parts.scheme == "https":
        secure = http.client.HTTPSConnection(*there, timeout=timeout_s, context=context)
        if at is not None:
            secure.set_tunnel(host, port, _credentials(at, "Proxy-Authorization"))
        return secure, target
    plain = http.client.HTTPConnection(*there, timeout=timeout_s)
    return plain, target if at is None else f"{place_of(parts.geturl())}{target}"


def _credentials(parts: SplitResult, header: str = "Authorization") -> dict[str, str]:
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {header: f"Basic {base64.b64encode(pair.encode()).decode()}"}


def _next_url(url: str, location: str) -> str:
    new = urljoin(url, location)
    if place_of(new) != place_of(url):
        raise SinkError(
            f"{place_of(url)} sends to {place_of(new)}, which is not followed: put that address"
            " into the settings if you trust it."
        )
    return new


def _seconds(text: str | None) -> float | None:
    return float(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else None
