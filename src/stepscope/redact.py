"""Command lines without their secrets.

A run folder is copied, attached to issues and sent to webhooks, and it holds the command line.
Values of options that look secret are replaced where a command line is taken in; the program
itself gets the true one. Standard library only: the training process uses this module too.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["REDACTED", "is_secret_name", "redact"]

REDACTED = "***"

# Looked for in names without their separators: api_key, API-KEY and apiKey are the same.
_SECRET = re.compile(
    r"secret|passw(or)?d|passphrase|credential|apikey|authkey|accesskey|privatekey|signingkey"
    r"|encryptionkey|accountkey|authorization|signature"
    r"|(wandb|openai|anthropic|hf|huggingface|comet|neptune|cohere|azure|ssh|license)key"
)
_SECRET_WORDS = {"auth", "oauth", "pass", "pwd", "cookie", "sig"}
# These may be counts and flags as well: --num_query_token 32, --class_token true.
_MAYBE_SECRET = re.compile(r"token$|(^|[^a-z])pat$")
_PLAIN_VALUE = re.compile(r"[\d.]{1,9}|true|false|none|<.*>", re.IGNORECASE)
# Tokens of a vocabulary, not of an account: --pad-token, --eos_token.
_VOCABULARY = re.compile(
    r"(pad|eos|bos|unk|sep|cls|mask|start|stop|end|image|audio|special|separator|per)token$"
)
# name=, "name": ", ['name'] = or name: Bearer, in front of a value.
_NAME = re.compile(
    r"""(?<![\w.-])(?P<name>[\w.-]+)["']?\]?\s*[=:]\s*(?:(?:bearer|basic|token)\s+)?(?P<quote>["'])?""",
    re.IGNORECASE,
)
_VALUE = re.compile(r"""[^\s"',;&{}()\[\]]*""")
_OPTION = re.compile(r"(?P<name>[-+\w./~]+)=(?P<value>.+)", re.DOTALL)
_LOGIN = re.compile(
    r"(?<![\w+.-])(?P<scheme>[A-Za-z][\w+.-]*://)(?P<user>[^\s/@:]*)(?P<password>:[^\s/]*)?@"
)
_LONG_USER = 20  # a user name of this length in a URL is a token
# Keys of well-known services, wherever they stand.
_KEYS = re.compile(
    r"\b(A(KIA|SIA)[0-9A-Z]{16}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{20,}|hf_\w{20,}"
    r"|sk-(proj-|ant-\w+-)?\w{20,}|xox[a-z]-[\w-]{10,}|AIza[\w-]{35}|eyJ[\w-]{8,}\.[\w-]+\.[\w-]+)"
)


def redact(words: Iterable[object]) -> list[str]:
    """The words of a command line, with `***` in place of what looks secret.

    >>> redact(["train.py", "--api-key", "abc", "--lr=0.1", "db://me:pw@host/x"])
    ['train.py', '--api-key', '***', '--lr=0.1', 'db://me:***@host/x']
    """
    redacted: list[str] = []
    value_follows = False
    for word in map(str, words):
        if value_follows and not word.startswith("-"):
            redacted.append(REDACTED if _holds_secret(redacted[-1], word) else word)
            value_follows = False
            continue
        redacted.append(_redact_word(word))
        value_follows = word.startswith("-") and "=" not in word and is_secret_name(word)
    return redacted


def is_secret_name(name: str) -> bool:
    """Whether an option or an environment variable of this name holds a secret.

    >>> is_secret_name("WANDB_API_KEY"), is_secret_name("--max-tokens"), is_secret_name("--author")
    (True, False, False)
    """
    name = re.sub(r"^-D", "", name)  # -Dtoken=…, as Java and CMake have it
    joined = re.sub(r"[^a-z0-9]", "", name.lower())
    if _VOCABULARY.search(joined):
        return False
    if _MAYBE_SECRET.search(name.lower()):
        return True
    words = re.split(r"[^a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())
    return bool(_SECRET.search(joined)) or not _SECRET_WORDS.isdisjoint(words)


def _holds_secret(name: str, value: str) -> bool:
    """Whether this value of an option is one to hide."""
    is_plain = _MAYBE_SECRET.search(name.lower()) and _PLAIN_VALUE.fullmatch(value)
    return is_secret_name(name) and not is_plain


def _redact_word(word: str) -> str:
    option = _OPTION.fullmatch(word)
    if option is not None and _holds_secret(option["name"], option["value"]):
        return f"{option['name']}={REDACTED}"
    word = _LOGIN.sub(_without_login, word)
    return _KEYS.sub(REDACTED, _redact_pairs(word))


def _without_login(match: re.Match[str]) -> str:
    user = REDACTED if len(match["user"]) >= _LONG_USER else match["user"]
    return f"{match['scheme']}{user}{f':{REDACTED}' if match['password'] else ''}@"


def _redact_pairs(text: str) -> str:
    parts, at = [], 0
    while (found := _NAME.search(text, at)) is not None:
        parts.append(text[at : found.end()])
        at = found.end()
        end = _end_of_value(text, found)
        if end > at and _holds_secret(found["name"], text[at:end]):
            parts.append(REDACTED)
            at = end
    return "".join([*parts, text[at:]])


def _end_of_value(text: str, found: re.Match[str]) -> int:
    """Where the value behind a name ends: at its closing quote, or where the next part of a URL, a
    list or a piece of code begins. A header with a login goes to the end of the text."""
    if found["quote"]:
        closing = text.find(found["quote"], found.end())
        return closing if closing >= 0 else len(text)
    if found["name"].lower() == "authorization":
        return len(text)
    value = _VALUE.match(text, found.end())
    return value.end() if value else found.end()
