"""The page for Prometheus, over real HTTP and read with the official parsers; the text file."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics

from stepscope.errors import UsageError
from stepscope.model.metric_table import METRICS, MetricType
from stepscope.model.watching import Reading
from stepscope.notify import scrape_server
from stepscope.notify.exposition import Exposition
from stepscope.notify.prometheus import PrometheusFile, PrometheusPage, make
from stepscope.notify.series import MOST_SERIES
from stepscope.notify.sink import HearsAlerts, MetricsSink, SinkError
from tests.unit.notify.exports import ALERT, RESOLVED, context, every_metric, options

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def made(folder: Path, **table: Any) -> PrometheusPage:
    sink = make(options("prometheus", **table), context(folder))
    assert isinstance(sink, PrometheusPage)
    return sink


@pytest.fixture
def page(tmp_path: Path) -> Iterator[PrometheusPage]:
    with contextlib.closing(made(tmp_path)) as sink:
        yield sink


def place(sink: PrometheusPage) -> tuple[str, int]:
    host, _, port = sink.address.removeprefix("http://").removesuffix("/metrics").rpartition(":")
    return host, int(port)


def get(
    sink: PrometheusPage, path: str = "/metrics", method: str = "GET", **headers: str
) -> tuple[int, str, str]:
    """Status, content type and text of an answer."""
    connection = http.client.HTTPConnection(*place(sink), timeout=30)
    with contextlib.closing(connection):
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers.get("Content-Type", ""), answer.read().decode()


def scraped(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """(name, labels) → value. Fails where a series is there twice, as Prometheus does."""
    found: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for family in parser.text_string_to_metric_families(text):
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found
            found[key] = sample.value
    return found


def of(name: str, rank: str = "0", **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset({**labels, "run": "monday", "rank": rank, "host": "box"}.items())


def test_every_metric_of_the_table_is_scraped_with_its_name_type_and_value(
    page: PrometheusPage,
) -> None:
    page.update(every_metric(), 0.0)
    status, content_type, text = get(page)
    assert status == 200
    assert content_type.startswith("text/plain")
    families = {one.name: one for one in parser.text_string_to_metric_families(text)}
    assert len(families) == len(METRICS)
    for at, metric in enumerate(METRICS.values(), 1):
        family = families[metric.prometheus.removesuffix("_total")]
        assert (family.type, family.documentation) == (metric.type.value, metric.about)
        assert [(one.name, one.value) for one in family.samples] == [(metric.prometheus, at)]


def test_openmetrics_is_served_to_who_asks_for_it_and_its_strict_parser_takes_it(
    page: PrometheusPage,
) -> None:
    page.update(every_metric(), 0.0)
    page.alert(ALERT)
    _, content_type, text = get(page, Accept=OPENMETRICS)
    assert content_type.startswith("application/openmetrics-text")
    families = list(openmetrics.text_string_to_metric_families(text))  # type: ignore[no-untyped-call]
    counters = [one for one in METRICS.values() if one.type is MetricType.COUNTER]
    assert sum(one.type == "counter" for one in families) == len(counters)


def test_labels_are_run_rank_host_the_metric_s_own_and_those_of_the_user(tmp_path: Path) -> None:
    sink = make(options("prometheus"), context(tmp_path, team="vision", run="not this"))
    assert isinstance(sink, PrometheusPage)
    with contextlib.closing(sink):
        sink.update([Reading(1, "phase_ratio", 0.5, "backward", 3)], 0.0)
        key = of("stepscope_phase_ratio", "3", phase="backward", team="vision")
        assert scraped(get(sink)[2]) == {key: 0.5}


def test_the_table_can_have_labels_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    with contextlib.closing(made(tmp_path, labels={"job_id": "$SLURM_JOB_ID"})) as sink:
        sink.update([Reading(1, "loss", 0.5)], 0.0)
        assert scraped(get(sink)[2]) == {of("stepscope_loss", job_id="17"): 0.5}


def test_a_folder_of_targets_that_cannot_be_written_is_said_and_the_port_given_back(
    tmp_path: Path, page: PrometheusPage
) -> None:
    (tmp_path / "file").touch()
    port = place(page)[1]
    page.close()
    with pytest.raises(UsageError, match="cannot be written"):
        made(tmp_path, port=port, targets=str(tmp_path / "file" / "targets"))
    made(tmp_path, port=port).close()


def test_a_newer_reading_replaces_the_older_and_others_stay(page: PrometheusPage) -> None:
    page.update([Reading(1, "loss", 3.0), Reading(1, "memory_bytes", 1e9)], 0.0)
    page.update([Reading(2, "loss", float("inf"))], 0.0)
    found = scraped(get(page)[2])
    assert found == {of("stepscope_loss"): float("inf"), of("stepscope_memory_bytes"): 1e9}


def test_an_alert_is_1_while_it_goes_on_and_0_after_and_is_counted_once(
    page: PrometheusPage,
) -> None:
    assert isinstance(page, HearsAlerts)
    assert isinstance(page, MetricsSink)
    mark = of("stepscope_alert", rule="slowdown", kind="slowdown")
    total = of("stepscope_alerts_total", rule="slowdown")
    page.alert(ALERT)
    page.alert(ALERT)  # told again
    assert scraped(get(page)[2]) == {mark: 1, total: 1}
    page.alert(replace(ALERT, id="a2"))
    page.alert(RESOLVED)
    assert scraped(get(page)[2]) == {mark: 1, total: 2}  # the second goes on
    page.alert(replace(RESOLVED, id="a2"))
    assert scraped(get(page)[2]) == {mark: 0, total: 2}


def test_what_resolves_an_alert_ends_the_mark_that_it_had_on_all_its_ranks(
    page: PrometheusPage,
) -> None:
    page.alert(replace(ALERT, ranks=(1, 4)))
    other = replace(ALERT.finding, kind="input-cpu")
    page.alert(replace(RESOLVED, ranks=(1,), finding=other))
    found = scraped(get(page)[2])
    marks = {key: value for key, value in found.items() if key[0] == "stepscope_alert"}
    labels = {"rule": "slowdown", "kind": "slowdown"}
    assert marks == {of("stepscope_alert", rank, **labels): 0 for rank in ("1", "4")}


def test_names_that_read_alike_stay_two_metrics(page: PrometheusPage) -> None:
    page.update([Reading(1, "loss/a", 1.0), Reading(1, "loss a", 2.0)], 0.0)
    found = scraped(get(page)[2])
    assert found.pop(of("stepscope_user_loss_a")) == 1.0
    ((name, _), value) = found.popitem()
    assert name.startswith("stepscope_user_loss_a_")
    assert value == 2.0


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.text(max_size=300), st.text(max_size=300)), max_size=8))
def test_whatever_a_program_calls_its_metrics_the_page_can_be_read(
    told: list[tuple[str, str]],
) -> None:
    exposition = Exposition(context(Path()))
    exposition.update([Reading(1, name, 1.0, label) for name, label in told])
    plain = exposition.page().content.decode()
    assert len(scraped(plain)) <= len(set(told))
    assert all(line.startswith(("#", "stepscope_")) for line in plain.split("\n") if line)


def test_a_name_of_lone_surrogates_and_a_label_of_lines_do_no_harm(page: PrometheusPage) -> None:
    page.update([Reading(1, "\ud800", 1.0, 'a"\n} 1\nup 0')], 0.0)
    key = of("stepscope_user_unnamed", label='a"\n} 1\nup 0')
    assert scraped(get(page)[2]) == {key: 1.0}


def test_the_number_of_series_is_bounded_and_what_is_left_out_is_counted(
    page: PrometheusPage,
) -> None:
    page.update([Reading(1, f"at_step_{at}", 1.0) for at in range(MOST_SERIES + 5)], 0.0)
    found = scraped(get(page)[2])
    assert found[of("stepscope_readings_dropped_total")] == 5
    assert len(found) == MOST_SERIES + 1


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "", "127.0.0.1.evil.example"])
def test_a_foreign_host_header_is_refused_on_loopback(page: PrometheusPage, host: str) -> None:
    assert get(page, Host=host)[0] == 403


@pytest.mark.parametrize("host", ["localhost", "localhost:9464", "127.0.0.1:1", "[::1]:9464"])
def test_names_of_this_machine_are_not(page: PrometheusPage, host: str) -> None:
    assert get(page, Host=host)[0] == 200


def test_a_request_from_a_page_in_a_browser_is_refused(page: PrometheusPage) -> None:
    assert get(page, Origin="http://evil.example")[0] == 403


def test_there_is_one_path_and_nothing_can_be_written(page: PrometheusPage) -> None:
    assert get(page, "/")[0] == 404
    assert get(page, "/metrics/../secret")[0] == 404
    assert get(page, method="POST")[0] == 501
    assert get(page, method="HEAD") == (200, get(page)[1], "")


def test_a_token_has_to_be_shown_where_one_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRAPE_TOKEN", "s3cret")
    with contextlib.closing(made(tmp_path, token="$SCRAPE_TOKEN")) as sink:
        assert get(sink)[0] == 401
        assert get(sink, Authorization="Bearer wrong")[0] == 401
        assert get(sink, Authorization="Bearer s3cret")[0] == 200


def test_a_scrape_is_answered_whatever_number_of_connections_is_idle(page: PrometheusPage) -> None:
    idle: list[socket.socket] = []
    try:
        for count in (16, 64, 200):
            while len(idle) < count:
                idle.append(socket.create_connection(place(page), 30))
            assert get(page)[0] == 200
        for one in idle[:100]:  # the oldest made way
            with contextlib.suppress(ConnectionResetError):
                assert one.recv(1) == b""
        page.update([Reading(1, "loss", 1.0)], 0.0)
        page.close()  # does not wait for the idle ones
    finally:
        for one in idle:
            one.close()


def test_a_request_that_comes_byte_by_byte_is_given_up(page: PrometheusPage) -> None:
    with socket.create_connection(place(page), 30) as slow:
        with contextlib.suppress(ConnectionError):
            while True:  # longer than any limit, but never silent for long
                slow.sendall(b"x")
                time.sleep(0.05)
        assert get(page)[0] == 200


def asked(page: PrometheusPage, request: bytes) -> int:
    """The status of the answer to a raw request; 0: it was closed without one."""
    with socket.create_connection(place(page), 30) as scraper:
        with contextlib.suppress(ConnectionError):
            scraper.sendall(request)
            scraper.shutdown(socket.SHUT_WR)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := scraper.recv(65536):
                answer += piece
    assert answer.count(b"HTTP/1.0 ") <= 1
    return int(answer.split()[1]) if answer else 0


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (["GET /metrics HTTP/1.1", "Host: localhost"], 200),
        (["GET /metrics?x=1 HTTP/1.0", "Host: localhost"], 200),
        (["GET http://localhost/metrics HTTP/1.1", "Host: localhost"], 200),
        (["GET http://evil.example/metrics HTTP/1.1", "Host: localhost"], 403),
        (["GET http://[::1/metrics HTTP/1.1", "Host: localhost"], 400),
        (["GET evil:/metrics HTTP/1.1", "Host: localhost"], 403),
        (["GET /metrics HTTP/1.1", "Host: localhost", "Host: localhost"], 400),
        (["GET /metrics HTTP/1.1", "Host: localhost", "host: evil.example"], 400),
        (["GET /metrics HTTP/1.1"], 400),
        (["GET /metrics HTTP/1.1", "Host: local host"], 400),
        (["GET /metrics HTTP/1.1", "Host: localhost:80:80"], 400),
        (["GET /metrics HTTP/1.1", "Host: user@localhost"], 400),
        (["GET /metrics HTTP/1.1", "Host: evil.example"], 403),
        (["GET /metrics HTTP/1.1", "Host: localhost", "Origin: null"], 403),
        (["GET /metrics HTTP/1.1", "Host : localhost"], 400),
        (["GET /metrics HTTP/1.1", "Host: localhost", "no colon"], 400),
        (["GET /metrics HTTP/1.1", "Host: localhost", "Content-Length: 0"], 200),
        (["GET /metrics HTTP/1.1", "Host: localhost", "Content-Length: 5"], 400),
        (["GET /metrics HTTP/1.1", "Host: localhost", *["Content-Length: 0"] * 2], 400),
        (["GET /metrics HTTP/1.1", "Host: localhost", "Transfer-Encoding: chunked"], 400),
        (["GET /metrics HTTP/1.1", "Host: localhost", f"X: {'x' * 20_000}"], 431),
        (["GET /metrics HTTP/1.1", "Host: localhost", *["X: y"] * 150], 431),
        ([f"GET /{'x' * 20_000} HTTP/1.1", "Host: localhost"], 414),
        (["GET /metrics HTTP/9.9", "Host: localhost"], 505),
        (["nonsense"], 400),
    ],
    ids=lambda lines: " ".join(lines)[:70] if isinstance(lines, list) else None,
)
def test_a_request_with_two_meanings_is_refused(
    page: PrometheusPage, lines: list[str], status: int
) -> None:
    assert asked(page, "\r\n".join([*lines, "", ""]).encode()) == status


def test_what_follows_a_request_is_not_another(page: PrometheusPage) -> None:
    request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n"
    assert asked(page, request * 2) == 200  # `asked` counts the answers


def test_a_process_without_descriptors_waits_before_it_tries_again(
    page: PrometheusPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    pauses = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)

    watched = SimpleNamespace(sleep=pause, monotonic=time.monotonic)
    monkeypatch.setattr(scrape_server, "time", watched)
    with socket.socket() as scraper:
        scraper.settimeout(30)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
        try:
            scraper.connect(place(page))
            scraper.sendall(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")
            assert scraper.recv(100).startswith(b"HTTP/1.0 200")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert len(pauses) == 1
    assert pauses[0] > 0


def test_a_taken_port_is_said_before_the_run_begins(page: PrometheusPage, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="choose another port, or 0"):
        made(tmp_path, port=place(page)[1])


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"port": 70_000}, "port of the prometheus sink"),
        ({"address": 5}, "address of the prometheus sink"),
        ({"prot": 1}, "has no setting 'prot'"),
        ({"address": "no.such.host.invalid"}, "cannot be served at no.such.host.invalid"),
        ({"interval_s": 0}, "interval_s of the prometheus sink"),
        ({"file": "a\0b"}, "file of the prometheus sink has a NUL"),
    ],
)
def test_settings_that_cannot_be_are_named(
    tmp_path: Path, table: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        made(tmp_path, **table)


def test_a_label_that_prometheus_does_not_know_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be a label"):
        make(options("prometheus"), context(tmp_path, **{"a-b": "c"}))


def test_the_address_is_in_the_folder_of_targets_while_the_run_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "targets"
    sink = made(tmp_path / "run", targets=str(folder))
    (file,) = folder.iterdir()
    host, port = place(sink)
    assert json.loads(file.read_text()) == [
        {"targets": [f"{host}:{port}"], "labels": {"job": "stepscope"}}
    ]
    assert (tmp_path / "run" / "metrics.url").read_text() == f"{sink.address}\n"
    sink.close()
    assert not list((tmp_path / "run").iterdir())
    assert not list(folder.iterdir())


def test_a_forked_child_does_not_keep_the_port(page: PrometheusPage) -> None:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # waits until the parent is done looking
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    os.close(read)
    try:
        address = place(page)
        page.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, 30)
    finally:
        os.close(write)
        os.waitpid(child, 0)


def made_file(path: Path, **table: Any) -> PrometheusFile:
    sink = make(options("prometheus", file=str(path), **table), context(path.parent))
    assert isinstance(sink, PrometheusFile)
    return sink


def test_the_text_file_holds_the_same_and_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "stepscope.prom"
    sink = made_file(path)
    sink.update([Reading(1, "loss", 3.0)], 0.0)
    before = path.open()
    sink.alert(ALERT)
    sink.update([Reading(2, "loss", 2.0)], 0.0)
    with before:
        assert scraped(before.read()) == {of("stepscope_loss"): 3.0}  # who reads sees one or other
    assert scraped(path.read_text())[of("stepscope_loss")] == 2.0
    sink.alert(RESOLVED)
    sink.close()
    mark = of("stepscope_alert", rule="slowdown", kind="slowdown")
    assert scraped(path.read_text())[mark] == 0
    assert list(tmp_path.iterdir()) == [path]


def test_the_text_file_goes_with_the_run_where_that_is_wished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    sink = made_file(tmp_path / "stepscope-$SLURM_JOB_ID.prom", keep=False)
    sink.update([Reading(1, "loss", 3.0)], 0.0)
    assert list(tmp_path.iterdir()) == [tmp_path / "stepscope-17.prom"]
    sink.close()
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_a_trouble_of_the_sink_alone(tmp_path: Path) -> None:
    sink = made_file(tmp_path / "gone" / "stepscope.prom")
    with pytest.raises(SinkError, match="cannot be written"):
        sink.update([Reading(1, "loss", 3.0)], 0.0)


def test_making_the_module_known_does_not_import_the_client() -> None:
    code = "import sys, stepscope.notify.prometheus; print('prometheus_client' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
