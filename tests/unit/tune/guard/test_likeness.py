"""Whatever a program does, it meets what it would meet without the guard, errors included."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from errno import ENOENT, ENOTDIR
from pathlib import Path
from stat import S_ISDIR
from typing import Any

import pytest

from stepscope.tune.guard.paths import View
from stepscope.tune.guard.redirect import Redirect
from tests.unit.tune.guard.world import fingerprint, make_project

NAMES = ("checkpoints", "data", "linked", "old", "a.txt", "1.pt", "log.jsonl", "new", "linked.txt")
Calls = dict[str, Callable[..., Any]]


def plain_calls() -> Calls:
    return {
        "open": open,
        "mkdir": os.mkdir,
        "rmdir": os.rmdir,
        "remove": os.remove,
        "rename": os.rename,
        "symlink": os.symlink,
        "link": os.link,
        "listdir": os.listdir,
        "stat": os.stat,
        "lstat": os.lstat,
        "readlink": os.readlink,
        "truncate": os.truncate,
        "chmod": os.chmod,
        "access": os.access,
    }


def guarded_calls(redirect: Redirect) -> Calls:
    changing, reading = redirect.changing, redirect.reading
    return {
        "open": redirect.opening.open,
        "mkdir": changing.mkdir,
        "rmdir": changing.rmdir,
        "remove": changing.remove,
        "rename": changing.rename,
        "symlink": changing.symlink,
        "link": changing.link,
        "listdir": redirect.listing.listdir,
        "stat": reading.stat,
        "lstat": reading.lstat,
        "readlink": reading.readlink,
        "truncate": reading.marking(os.truncate),
        "chmod": reading.marking(os.chmod),
        "access": reading.access,
    }


def some_path(chance: random.Random) -> str:
    parts = [chance.choice(NAMES) for _ in range(chance.randint(1, 3))]
    if len(parts) > 1 and chance.random() < 0.1:
        parts.insert(1, "..")
    return "/".join(parts)


def some_deed(chance: random.Random) -> tuple[str, tuple[Any, ...]]:
    """A call and its arguments, paths relative to the project."""
    call = chance.choice([*plain_calls(), "open", "open", "mkdir", "rename"])
    path = some_path(chance)
    match call:
        case "open":
            return call, (path, chance.choice(["r", "w", "a", "x", "r+"]))
        case "rename" | "link":
            return call, (path, some_path(chance))
        case "symlink":
            return call, (some_path(chance), path)
        case "truncate":
            return call, (path, 1)
        case "chmod":
            return call, (path, chance.choice([0o700, 0o755]))
        case "access":
            return call, (path, os.R_OK)
        case _:
            return call, (path,)


def outcome(calls: Calls, root: Path, call: str, args: tuple[Any, ...]) -> Any:
    """What a deed gives, or the number of its error."""
    paths = 2 if call in ("rename", "link") else 1
    if call == "symlink":
        args = (args[0], root / args[1])
    else:
        args = (*(root / path for path in args[:paths]), *args[paths:])
    try:
        result = calls[call](*args)
        if call == "open":
            with result as file:
                return file.read() if args[1] == "r" else file.write("+")
    except OSError as error:
        # Where several things are wrong, which of them is said matters little.
        several = call == "rename" or error.errno in (ENOENT, ENOTDIR)
        return "error" if several else f"error {error.errno}"
    if call == "listdir":
        return sorted(result)
    if call in ("stat", "lstat"):
        return (result.st_mode, result.st_size if result.st_mode & 0o100000 else 0)
    return result


def walk(calls: Calls, root: Path, path: str = ".") -> dict[str, Any]:
    """Everything below a folder, as these calls tell of it; links are not followed."""
    found: dict[str, Any] = {}
    for name in calls["listdir"](root / path):
        below = f"{path}/{name}"
        found[below] = [
            outcome(calls, root, call, (below, *more))
            for call, more in (("lstat", ()), ("stat", ()), ("readlink", ()), ("open", ("r",)))
        ]
        if S_ISDIR(calls["lstat"](root / below).st_mode):
            found |= walk(calls, root, below)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_guarded_processes_meet_what_plain_ones_would(seed: int, tmp_path: Path) -> None:
    original = make_project(tmp_path.resolve() / "guarded")
    plain_root = tmp_path.resolve() / "plain"
    shutil.copytree(original, plain_root, symlinks=True)
    before = fingerprint(original)
    scratch = tmp_path.resolve() / "scratch"
    (scratch / "files").mkdir(parents=True)
    # Two, as two processes would have: each must see what the other did.
    guarded = [guarded_calls(Redirect(View(str(scratch), []))) for _ in range(2)]
    plain = plain_calls()
    chance = random.Random(seed)
    for number in range(150):
        call, args = some_deed(chance)
        expected = outcome(plain, plain_root, call, args)
        met = outcome(chance.choice(guarded), original, call, args)
        assert met == expected, (number, call, args)
    for calls in guarded:
        assert walk(calls, original) == walk(plain, plain_root)
    assert fingerprint(original) == before
