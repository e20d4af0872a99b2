"""Alerts by e-mail: SMTP, encrypted unless it stays on this machine."""

from __future__ import annotations

import contextlib
import hashlib
import io
import smtplib
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, parseaddr
from typing import Any, Final

from stepscope.errors import UsageError
from stepscope.model.alert import Alert, AlertState
from stepscope.model.delivery import notice_key
from stepscope.notify.deadline import Deadline, TimedReader
from stepscope.notify.options import Options
from stepscope.notify.secrets import short_hash
from stepscope.notify.sink import SinkContext, SinkError
from stepscope.notify.words import headline, one_line, paragraphs

__all__ = ["Mail", "MailSettings", "make"]

_PORTS: Final = {"starttls": 587, "ssl": 465, "none": 25}
_HERE: Final = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class MailSettings:
    """security: "starttls", "ssl" or "none". user "": without login."""

    host: str
    port: int
    sender: str
    to: tuple[str, ...]
    name: str
    security: str = "starttls"
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    timeout_s: float = 20.0
    ca_file: str = ""


def make(options: Options, context: SinkContext) -> Mail:
    host = options.text("host")
    security = options.choice("security", "starttls", tuple(_PORTS))
    sender, to = options.text("from"), options.texts("to")
    for address in (sender, *to):
        if "@" not in parseaddr(address)[1] or not address.isprintable():
            raise UsageError(f"{address!r} in the mail sink is no address.")
    if not to:
        raise UsageError(f"{options.where('to')} has to name somebody.")
    user, password = options.secret("user", ""), options.secret("password", "")
    if user and security == "none" and host not in _HERE:
        raise UsageError(
            f'{options.where("security")} is "none": a password would go to {host} unencrypted.'
        )
    port = options.whole("port", _PORTS[security], least=1, most=65535)
    who = short_hash(repr((host, port, sender, to)))
    settings = MailSettings(
        host=host,
        port=port,
        sender=sender,
        to=to,
        name=f"mail {one_line(host)} #{who}",
        security=security,
        user=user,
        password=password,
        timeout_s=options.number("timeout_s", 20.0, least=0.1, most=60.0),
        ca_file=options.text("ca_file", ""),
    )
    return Mail(settings)


class Mail:
    """The end of an incident answers to its beginning, so that both are one thread."""

    def __init__(self, settings: MailSettings) -> None:
        self._settings = settings
        try:
            self._trust = ssl.create_default_context()
            if settings.ca_file:
                self._trust.load_verify_locations(settings.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise UsageError(
                f"ca_file of the mail sink, {settings.ca_file}, holds no certificates."
            ) from error

    @property
    def name(self) -> str:
        return self._settings.name

    def send(self, alert: Alert) -> None:
        settings, place = self._settings, self._settings.host
        deadline = Deadline(settings.timeout_s)
        try:
            self._deliver(_message(alert, settings.sender, settings.to), deadline)
        except smtplib.SMTPAuthenticationError as error:
            raise SinkError(f"{place} does not take the user and password.") from error
        except smtplib.SMTPRecipientsRefused as error:
            codes = [code for code, _ in error.recipients.values()]
            raise SinkError(
                f"{place} takes mail for none of the addresses ({codes[0]}).",
                permanent=min(codes) >= 500,
            ) from error
        except smtplib.SMTPResponseException as error:
            code = error.smtp_code
            raise SinkError(f"{place} answered {code}.", permanent=500 <= code < 600) from error
        except ssl.SSLCertVerificationError as error:
            raise SinkError(
                f"{place} has no certificate that can be trusted ({error.verify_message})."
            ) from error
        except (OSError, smtplib.SMTPException, ValueError) as error:
            if deadline.is_over or isinstance(error, TimeoutError):
                late = f"{place} did not answer within {settings.timeout_s:g} s."
                raise SinkError(late) from error
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise SinkError(f"{place} cannot be reached ({reason}).") from error

    def close(self) -> None:
        """Nothing stays open."""

    def _deliver(self, message: EmailMessage, deadline: Deadline) -> None:
        settings = self._settings
        smtp = _connect(settings, deadline, self._trust)
        try:
            if settings.security == "starttls":
                smtp.starttls(context=self._trust)
            if settings.user:
                smtp.login(settings.user, settings.password)
            smtp.send_message(message, settings.sender, list(settings.to))
            with contextlib.suppress(OSError, smtplib.SMTPException):
                smtp.putcmd("quit")  # it was taken: what the server says to this is no matter
        finally:
            smtp.close()


class _Timed(smtplib.SMTP):
    """All answers together come until the deadline."""

    def __init__(self, host: str, port: int, deadline: Deadline, **more: Any) -> None:
        self._deadline = deadline
        super().__init__(host, port, timeout=deadline.left_s(), **more)

    def getreply(self) -> tuple[int, bytes]:
        if self.file is None and self.sock is not None:
            self.file = io.BufferedReader(TimedReader(self.sock, self._deadline))
        return super().getreply()


class _TimedSsl(_Timed, smtplib.SMTP_SSL):
    """The same, encrypted from the beginning."""


def _connect(settings: MailSettings, deadline: Deadline, trust: ssl.SSLContext) -> _Timed:
    if settings.security == "ssl":
        return _TimedSsl(settings.host, settings.port, deadline, context=trust)
    return _Timed(settings.host, settings.port, deadline)


def _message(alert: Alert, sender: str, to: Sequence[str]) -> EmailMessage:
    message = EmailMessage(policy=SMTP)
    message["Subject"] = f"[stepscope] {headline(alert)}"[:200]
    message["From"], message["To"] = sender, ", ".join(to)
    message["Date"] = format_datetime(datetime.fromtimestamp(alert.told_unix, UTC))
    message["Message-ID"] = _message_id(notice_key(alert))
    message["X-Stepscope-Key"] = one_line(notice_key(alert))
    message["Auto-Submitted"] = "auto-generated"
    if not alert.is_firing:
        message["In-Reply-To"] = _message_id(f"{alert.id}:{AlertState.FIRING.value}")
    message.set_content("\n".join([headline(alert), "", *paragraphs(alert), ""]))
    return message


def _message_id(key: str) -> str:
    return f"<{hashlib.sha256(key.encode('utf-8', 'replace')).hexdigest()[:32]}@stepscope>"
