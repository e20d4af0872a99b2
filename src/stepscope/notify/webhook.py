"""Alerts by HTTP: a POST of JSON for each."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from stepscope.errors import UsageError
from stepscope.model.alert import Alert
from stepscope.model.delivery import json_line, notice_key
from stepscope.notify.http import Answer, check_headers, check_url, post
from stepscope.notify.options import Options
from stepscope.notify.secrets import place_of, resolve, short_hash
from stepscope.notify.sink import SinkContext, SinkError
from stepscope.notify.words import headline, paragraphs

__all__ = ["Webhook", "WebhookSettings", "make"]

_FORMATS: Final = ("json", "slack")
# The same request will fare no better later.
_REFUSED: Final = frozenset({400, 404, 405, 406, 410, 411, 413, 414, 415, 422})


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """url, headers: with their secrets, so not shown. ca_file: whom to trust beside the usual."""

    url: str = field(repr=False)
    name: str
    format: str = "json"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = 10.0
    ca_file: str = ""


def make(options: Options, context: SinkContext) -> Webhook:
    written = options.text("url")
    url = resolve(written, options.where("url"))
    check_url(url, options.where("url"))
    where = options.where("headers")
    headers = {name: resolve(value, where) for name, value in options.table("headers").items()}
    check_headers(headers, where)
    return Webhook(
        WebhookSettings(
            url,
            f"webhook {place_of(url)} #{short_hash(written)}",
            options.choice("format", "json", _FORMATS),
            headers,
            options.number("timeout_s", 10.0, least=0.1, most=60.0),
            options.text("ca_file", ""),
        )
    )


class Webhook:
    """Each request has the header Idempotency-Key: a receiver can tell a second delivery by it."""

    def __init__(self, settings: WebhookSettings) -> None:
        self._settings = settings
        self._context = _trust(settings) if urlsplit(settings.url).scheme == "https" else None

    @property
    def name(self) -> str:
        return self._settings.name

    def send(self, alert: Alert) -> None:
        settings = self._settings
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "stepscope",
            "Idempotency-Key": notice_key(alert),
            **settings.headers,
        }
        body = json_line(_FORMAT[settings.format](alert)).encode("ascii")
        answer = post(settings.url, body, headers, settings.timeout_s, self._context)
        _judge(answer, place_of(settings.url))

    def close(self) -> None:
        """Nothing stays open."""


def _trust(settings: WebhookSettings) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context()
        if settings.ca_file:
            context.load_verify_locations(settings.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"ca_file of the webhook sink, {settings.ca_file}, holds no certificates."
        ) from error
    return context


def _judge(answer: Answer, place: str) -> None:
    status = answer.status
    if 200 <= status < 300:
        return
    if 300 <= status < 400:
        raise SinkError(f"{place} sends elsewhere ({status}): put the new address in the settings.")
    raise SinkError(
        f"{place} answered {status}.",
        permanent=status in _REFUSED,
        retry_after_s=answer.retry_after_s,
    )


def _plain(alert: Alert) -> Mapping[str, object]:
    return {"key": notice_key(alert), **alert.to_dict()}


def _slack(alert: Alert) -> Mapping[str, object]:
    """For Slack and what understands its messages. Only these three mean something there."""
    text = "\n".join([f"*{headline(alert)}*", *paragraphs(alert)])
    return {"text": text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")}


_FORMAT: Final = {"json": _plain, "slack": _slack}
