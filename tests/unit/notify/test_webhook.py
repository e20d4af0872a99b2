from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stepscope.errors import UsageError
from stepscope.model.alert import Alert
from stepscope.notify.options import Options
from stepscope.notify.sink import SinkError
from stepscope.notify.webhook import Webhook, make
from tests.unit.notify.alerts_by_hand import context, firing, resolved
from tests.unit.notify.servers import CERTIFICATE, DRIP, HANG, Hook, free_port, serving


@pytest.fixture
def hook() -> Iterator[Hook]:
    with serving() as hook:
        yield hook


def made(url: str, **more: Any) -> Webhook:
    options = Options({"url": url, "timeout_s": 30, **more}, "webhook")
    return make(options, context(Path()))


def refusal(sink: Webhook, alert: Alert | None = None) -> SinkError:
    with pytest.raises(SinkError) as caught:
        sink.send(alert or firing())
    return caught.value


def test_an_alert_is_posted_as_json_with_a_key_to_tell_it_by(hook: Hook) -> None:
    sink = made(f"http://127.0.0.1:{hook.port}/hooks/1?x=y")
    sink.send(firing())
    sink.send(resolved())
    first, second = hook.requests
    assert first.path == "/hooks/1?x=y"
    assert first.headers["content-type"] == "application/json"
    assert json.loads(first.body) == {"key": "a:firing", **firing().to_dict()}
    assert hook.keys == ["a:firing", "a:resolved"]
    assert json.loads(second.body)["state"] == "resolved"


def test_what_is_no_number_is_null(hook: Hook) -> None:
    made(f"http://127.0.0.1:{hook.port}").send(firing(value=float("nan")))
    body = hook.requests[0].body.decode()
    assert json.loads(body, parse_constant=pytest.fail)["value"] is None


def test_for_chats_it_is_a_text_in_which_signs_have_no_meaning(hook: Hook) -> None:
    made(f"http://127.0.0.1:{hook.port}", format="slack").send(firing())
    (text,) = json.loads(hook.requests[0].body).values()
    assert text.startswith("*steps take 30 % longer &lt;since&gt; 12 &amp; on at train.py:7")
    assert "It began at step 12." in text
    assert "What to do: Use workers." in text


def test_secrets_come_from_the_environment_and_are_shown_nowhere(
    hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_TOKEN", "s3cret")
    url = f"http://me:${{HOOK_TOKEN}}@127.0.0.1:{hook.port}/$HOOK_TOKEN?t=$HOOK_TOKEN"
    sink = made(url, headers={"X-Token": "Token $HOOK_TOKEN"})
    hook.answers = [500]
    error = refusal(sink)
    (request,) = hook.requests
    assert request.path == "/s3cret?t=s3cret"
    assert request.headers["authorization"] == "Basic bWU6czNjcmV0"  # me:s3cret
    assert request.headers["x-token"] == "Token s3cret"
    assert "s3cret" not in f"{error} {error!r} {sink.name} {sink._settings!r}"
    assert sink.name.startswith(f"webhook http://127.0.0.1:{hook.port} #")


def test_the_name_stays_when_the_secret_changes_and_tells_addresses_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOOK_TOKEN", "one")
    before = made("https://example.org/$HOOK_TOKEN").name
    monkeypatch.setenv("HOOK_TOKEN", "two")
    assert made("https://example.org/$HOOK_TOKEN").name == before
    assert made("https://example.org/other").name != before


def test_a_secret_that_is_not_there_is_said() -> None:
    with pytest.raises(UsageError, match=r"url of the webhook sink needs .* NO_SUCH_VARIABLE"):
        made("https://example.org/$NO_SUCH_VARIABLE")


_NO_ADDRESSES = [
    "",
    "a.org",
    "ftp://a",
    "http://",
    "http://a:99999/",
    "http://[",
    "http://a\r\nX: y",
]


@pytest.mark.parametrize("url", _NO_ADDRESSES)
def test_what_is_no_address_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        made(url)
    assert str(caught.value).endswith("is no address: it has to be http://… or https://… .")


def test_a_header_that_would_break_the_request_is_refused_and_not_shown() -> None:
    with pytest.raises(UsageError) as caught:
        made("http://example.org", headers={"X": "s3cret\r\nHost: other"})
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("status", [400, 404, 410])
def test_what_never_will_be_taken_is_permanent(hook: Hook, status: int) -> None:
    hook.answers = [status]
    error = refusal(made(f"http://127.0.0.1:{hook.port}"))
    assert error.permanent
    assert str(error) == f"http://127.0.0.1:{hook.port} answered {status}."


@pytest.mark.parametrize("status", [401, 403, 408, 429, 500, 503])
def test_what_may_pass_is_not(hook: Hook, status: int) -> None:
    hook.answers = [(status, {"Retry-After": "17"})]
    error = refusal(made(f"http://127.0.0.1:{hook.port}"))
    assert (error.permanent, error.retry_after_s) == (False, 17.0)


def test_a_server_that_refuses_the_connection_is_an_error_of_the_sink() -> None:
    port = free_port()
    error = refusal(made(f"http://127.0.0.1:{port}/s3cret"))
    assert str(error) == f"http://127.0.0.1:{port} cannot be reached (Connection refused)."


@pytest.mark.parametrize("how", [HANG, DRIP])
def test_a_server_that_does_not_get_to_the_end_is_left(hook: Hook, how: str) -> None:
    hook.answers = [how]
    error = refusal(made(f"http://127.0.0.1:{hook.port}", timeout_s=0.3))
    assert "did not answer within 0.3 s" in str(error)
    assert not error.permanent


def test_the_rest_of_an_answer_is_not_waited_for(hook: Hook) -> None:
    hook.answers = [(200, {"Content-Length": "1000000000"})]
    made(f"http://127.0.0.1:{hook.port}").send(firing())


def test_a_redirect_on_the_same_server_is_followed(hook: Hook) -> None:
    hook.answers = [(308, {"Location": "/new"}), 200]
    made(f"http://127.0.0.1:{hook.port}/old").send(firing())
    assert [request.path for request in hook.requests] == ["/old", "/new"]
    assert hook.requests[0].body == hook.requests[1].body


def test_a_redirect_that_turns_in_circles_ends(hook: Hook) -> None:
    hook.answers = [(307, {"Location": "/again"})]
    assert "from one address to the next" in str(refusal(made(f"http://127.0.0.1:{hook.port}")))


def test_a_redirect_to_another_server_is_not_followed(hook: Hook) -> None:
    with serving() as other:
        hook.answers = [(307, {"Location": f"http://127.0.0.1:{other.port}/s3cret"})]
        error = refusal(made(f"http://127.0.0.1:{hook.port}", headers={"X-Token": "t"}))
        assert other.requests == []
    assert f"http://127.0.0.1:{other.port}, which is not followed" in str(error)
    assert "s3cret" not in str(error)


@pytest.mark.parametrize("location", ["http://[", "", "file:///etc/passwd"])
def test_a_redirect_to_nowhere_is_an_error_of_the_sink(hook: Hook, location: str) -> None:
    hook.answers = [(307, {"Location": location})]
    assert not refusal(made(f"http://127.0.0.1:{hook.port}")).permanent


@pytest.mark.parametrize("status", [301, 302, 303])
def test_a_redirect_that_would_lose_the_alert_is_not_followed(hook: Hook, status: int) -> None:
    hook.answers = [(status, {"Location": "/new"})]
    assert "sends elsewhere" in str(refusal(made(f"http://127.0.0.1:{hook.port}")))
    assert len(hook.requests) == 1


def test_an_https_server_has_to_prove_who_it_is() -> None:
    with serving(tls=True) as hook:
        error = refusal(made(f"https://localhost:{hook.port}"))
        assert "no certificate that can be trusted" in str(error)
        assert hook.requests == []
        made(f"https://localhost:{hook.port}", ca_file=str(CERTIFICATE)).send(firing())
        assert hook.keys == ["a:firing"]


def test_a_file_without_certificates_is_said(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.raises(UsageError, match=r"ca_file .* holds no certificates"):
        made("https://example.org", ca_file=str(tmp_path / "ca.pem"))


def test_a_proxy_of_the_environment_is_used(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{hook.port}")
    monkeypatch.setenv("no_proxy", "")
    made("http://example.invalid/a?b").send(firing())
    assert hook.requests[0].path == "http://example.invalid/a?b"
