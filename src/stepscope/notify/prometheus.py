"""Metrics for Prometheus: a page to scrape, or a file for node_exporter's textfile collector."""

from __future__ import annotations

import importlib.util
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from stepscope.errors import MissingExtraError, UsageError
from stepscope.model.alert import Alert
from stepscope.model.watching import Reading
from stepscope.notify.exposition import Exposition
from stepscope.notify.options import Options
from stepscope.notify.scrape_server import ScrapeServer
from stepscope.notify.secrets import resolve, short_hash
from stepscope.notify.series import labelled
from stepscope.notify.sink import MetricsSink, SinkContext, SinkError

__all__ = ["ADDRESS_FILE", "PrometheusFile", "PrometheusPage", "make"]

ADDRESS_FILE: Final = "metrics.url"  # in the run folder: where the page is, while the run goes on
_LABEL: Final = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")  # two underlines: Prometheus' own
_ANY_ADDRESS: Final = ("0.0.0.0", "::")


def make(options: Options, context: SinkContext) -> MetricsSink:
    """file: write there, in place of serving a page. port: 0 is any that is free. targets: a folder
    that Prometheus watches (file_sd_configs), to be told of the address. token: what scrapers have
    to show. keep: leave the file when the run ends. labels: for every series."""
    if importlib.util.find_spec("prometheus_client") is None:
        raise MissingExtraError("prometheus_client", "prometheus")
    context = labelled(options, context)
    _check_labels(context)
    interval_s = options.number("interval_s", 5.0, least=0.1)
    path = options.text("file", "")
    if path:
        path = resolve(path, options.where("file"))
        keep = options.flag("keep", True)
        options.done()
        return PrometheusFile(Path(path), context, interval_s, keep=keep)
    address = options.text("address", "127.0.0.1")
    port = options.whole("port", 0, most=65535)
    token, targets = options.secret("token", ""), options.text("targets", "")
    targets = resolve(targets, options.where("targets"))
    options.done()
    page = PrometheusPage(context, interval_s, (address, port), token)
    try:
        page.announce(context.folder / ADDRESS_FILE, page.address + "\n", 0o600)
        if targets:
            page.announce(Path(targets) / _target_file(context), page.target())
    except UsageError:
        page.close()
        raise
    return page


class PrometheusPage:
    """A MetricsSink that is scraped. address: where, for whoever shows it."""

    name = "prometheus"

    def __init__(
        self, context: SinkContext, interval_s: float, place: tuple[str, int], token: str = ""
    ) -> None:
        self.interval_s = interval_s
        self._context = context
        self._exposition = Exposition(context)
        self._server = ScrapeServer(*place, self._exposition.page, token)
        self._announced: list[Path] = []

    @property
    def address(self) -> str:
        return f"http://{self._server.address}/metrics"

    def update(self, readings: Sequence[Reading], now_unix: float) -> None:
        self._exposition.update(readings)

    def alert(self, alert: Alert) -> None:
        self._exposition.alert(alert)

    def target(self) -> str:
        """As Prometheus reads it from files (file_sd_configs)."""
        host, _, port = self._server.address.rpartition(":")
        host = self._context.host if host.strip("[]") in _ANY_ADDRESS else host
        return json.dumps([{"targets": [f"{host}:{port}"], "labels": {"job": "stepscope"}}])

    def announce(self, path: Path, text: str, mode: int = 0o666) -> None:
        """A file that is there until the run is over. UsageError: it cannot be written."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _replace(path, text.encode(), mode)
        except OSError as error:
            raise UsageError(f"{path} cannot be written ({error.strerror}).") from error
        self._announced.append(path)

    def close(self) -> None:
        for path in self._announced:
            path.unlink(missing_ok=True)
        self._server.close()


class PrometheusFile:
    """A MetricsSink that writes a .prom file: each time all of it, so that a reader never sees half
    of it."""

    def __init__(self, path: Path, context: SinkContext, interval_s: float, *, keep: bool) -> None:
        self.name = f"prometheus-{short_hash(str(path))}"
        self.interval_s = interval_s
        self._path, self._keep = path, keep
        self._exposition = Exposition(context)

    def update(self, readings: Sequence[Reading], now_unix: float) -> None:
        self._exposition.update(readings)
        self._write()

    def alert(self, alert: Alert) -> None:
        self._exposition.alert(alert)

    def close(self) -> None:
        if self._keep:
            self._write()  # an alert may have come after the last readings
        else:
            self._path.unlink(missing_ok=True)

    def _write(self) -> None:
        try:
            _replace(self._path, self._exposition.page().content)
        except OSError as error:
            raise SinkError(f"{self._path} cannot be written ({error.strerror}).") from error


def _target_file(context: SinkContext) -> str:
    return f"stepscope-{short_hash(f'{context.run} {context.host}')}.json"


def _check_labels(context: SinkContext) -> None:
    for name in context.labels:
        if not _LABEL.fullmatch(name):
            raise UsageError(
                f"{name!r} cannot be a label of Prometheus: those are letters, digits and _."
            )


def _replace(path: Path, content: bytes, mode: int = 0o666) -> None:
    """A reader sees what was there, or all of this."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.touch(mode)
        unfinished.write_bytes(content)
        unfinished.replace(path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
