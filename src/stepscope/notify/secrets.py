"""Settings that hold secrets: they stand in the environment, and are shown nowhere."""

from __future__ import annotations

import hashlib
import os
import re
from urllib.parse import urlsplit

from stepscope.errors import UsageError

__all__ = ["place_of", "resolve", "short_hash"]

_REFERENCE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


def resolve(text: str, what: str) -> str:
    """The text with $NAME and ${NAME} from the environment. what: the setting, for the message."""

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        found = os.environ.get(name)
        if not found:
            raise UsageError(f"{what} needs the environment variable {name}, which is not set.")
        return found

    return _REFERENCE.sub(value, text)


def short_hash(text: str) -> str:
    """Tells settings apart without showing them. Hash them as written: `$TOKEN` rather than what it
    stands for, so that a new token is not a new sink."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def place_of(url: str) -> str:
    """Scheme, host and port. The rest may be a secret: of chat services' addresses the path is."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    port = f":{parts.port}" if parts.port is not None else ""
    return f"{parts.scheme}://{host}{port}"
