from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from email import message_from_bytes
from email.message import Message
from email.policy import default
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword

from stepscope.errors import UsageError
from stepscope.notify.mail import Mail, make
from stepscope.notify.options import Options
from stepscope.notify.sink import SinkError
from tests.unit.notify.alerts_by_hand import context, firing, resolved
from tests.unit.notify.servers import CERTIFICATE, free_port


class Box:
    """What a server took. refuse: its answer to recipients."""

    def __init__(self) -> None:
        self.mails: list[Message] = []
        self.refuse = ""

    async def handle_RCPT(  # noqa: N802 - aiosmtpd calls it so
        self, server: Any, session: Any, envelope: Any, address: str, options: Any
    ) -> str:
        if self.refuse:
            return self.refuse
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(  # noqa: N802
        self, server: Any, session: Any, envelope: Any
    ) -> str:
        self.mails.append(message_from_bytes(envelope.content, policy=default))
        return "250 OK"


def _check(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
    good = isinstance(data, LoginPassword) and (data.login, data.password) == (b"me", b"s3cret")
    return AuthResult(success=good, handled=good)


@contextlib.contextmanager
def mailing(security: str = "none") -> Iterator[tuple[Box, int]]:
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trust.load_cert_chain(CERTIFICATE)
    more: dict[str, Any] = {"ssl_context": trust} if security == "ssl" else {}
    if security == "starttls":
        more = {
            "tls_context": trust,
            "require_starttls": True,
            "auth_required": True,
            "authenticator": _check,
        }
    box, port = Box(), free_port()
    controller = Controller(box, hostname="127.0.0.1", port=port, ready_timeout=60, **more)
    controller.start()
    try:
        yield box, port
    finally:
        controller.stop()


def made(port: int, **more: Any) -> Mail:
    table = {
        "host": "localhost",
        "port": port,
        "security": "none",
        "from": "Stepscope <s@example.org>",
        "to": ["me@example.org", "you@example.org"],
        "ca_file": str(CERTIFICATE),
        "timeout_s": 30,
    }
    return make(Options(table | more, "mail"), context(Path()))


def refusal(sink: Mail) -> SinkError:
    with pytest.raises(SinkError) as caught:
        sink.send(firing())
    return caught.value


def test_an_alert_is_a_mail_and_its_end_an_answer_to_it() -> None:
    with mailing() as (box, port):
        made(port).send(firing())
        made(port).send(resolved())
    first, second = box.mails
    assert first["Subject"].startswith("[stepscope] steps take 30 % longer <since> 12 & on")
    assert (first["From"], first["To"]) == (
        "Stepscope <s@example.org>",
        "me@example.org, you@example.org",
    )
    assert first["X-Stepscope-Key"] == "a:firing"
    assert second["In-Reply-To"] == first["Message-ID"]
    body = first.get_payload(decode=True)
    assert isinstance(body, bytes)
    assert "it is 130 ms" in body.decode()
    assert "What to do: Use workers." in body.decode()


def test_text_from_outside_makes_no_headers() -> None:
    with mailing() as (box, port):
        made(port).send(firing(run="r\r\nBcc: all@example.org\r\n\r\nHi"))
    assert box.mails[0]["Bcc"] is None


def test_starttls_and_a_login_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAIL_PASSWORD", "s3cret")
    with mailing("starttls") as (box, port):
        login = {"security": "starttls", "user": "me", "password": "$MAIL_PASSWORD"}
        sink = made(port, **login)
        sink.send(firing())
        assert len(box.mails) == 1
        assert "s3cret" not in f"{sink.name}{sink._settings!r}"
        monkeypatch.setenv("MAIL_PASSWORD", "wr0ng")
        error = refusal(made(port, **login))
    assert str(error) == "localhost does not take the user and password."
    assert not error.permanent


def test_encrypted_from_the_beginning() -> None:
    with mailing("ssl") as (box, port):
        made(port, security="ssl").send(firing())
        assert len(box.mails) == 1
        error = refusal(made(port, security="ssl", ca_file=""))
    assert "no certificate that can be trusted" in str(error)


def test_a_server_that_will_never_take_it_is_told_from_one_that_may() -> None:
    with mailing() as (box, port):
        box.refuse = "550 no such mailbox"
        assert refusal(made(port)).permanent
        box.refuse = "451 try later"
        assert not refusal(made(port)).permanent


def test_a_server_that_is_not_there_is_an_error_of_the_sink() -> None:
    assert "localhost cannot be reached" in str(refusal(made(free_port())))


@pytest.mark.parametrize("drips", [False, True])
def test_a_server_that_does_not_get_to_the_end_is_left(drips: bool) -> None:
    over = threading.Event()

    def serve() -> None:
        with contextlib.closing(listener.accept()[0]) as connection:
            while not over.wait(0.02):
                if drips:
                    connection.sendall(b"2")

    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            error = refusal(made(listener.getsockname()[1], timeout_s=0.3))
        finally:
            over.set()
            with contextlib.suppress(OSError):
                socket.create_connection(listener.getsockname()).close()
            thread.join()
    assert "did not answer within 0.3 s" in str(error)


def test_a_password_does_not_go_out_unencrypted() -> None:
    with pytest.raises(UsageError, match="unencrypted"):
        made(25, host="mail.example.org", user="me", password="x")


@pytest.mark.parametrize(
    "wrong", [{"to": []}, {"to": ["nobody"]}, {"from": "a@b\nX: y"}, {"security": "maybe"}]
)
def test_what_cannot_be_is_refused_at_the_start(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        made(25, **wrong)
