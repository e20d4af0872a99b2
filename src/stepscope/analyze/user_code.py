"""Whose code a file is: the user's own, or somebody else's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from stepscope.model.finding import Location
from stepscope.model.own_code import is_ours

__all__ = ["is_users", "named_function", "users_place"]

_PYTHON = (".py", ".pyw", ".ipynb")

_PACKAGES = re.compile(
    r"[/\\](?:site|dist)-packages[/\\]"
    r"|[/\\]lib(?:64)?[/\\]python\d+(?:\.\d+)?(?:\.zip)?[/\\]"  # the standard library
    r"|[/\\]Python\d*[/\\]Lib[/\\]"  # on Windows
    r"|[/\\]torchinductor_[^/\\]*[/\\]"  # made by torch.compile,
    r"|[/\\](\w\w)[/\\]c\1[a-z2-7]{49}\.py$"  # in whatever folder
)
# What compiled text is called where a person typed it: `python -c`, a prompt, a notebook.
_TYPED = ("<stdin>", "<string>", "<ipython-input", "<doctest")
# Functions that dataclasses and namedtuples make of text, which is called "<string>" as well.
_MADE = ("__create_fn__", "<lambda>", "namedtuple_")
# Functions without a name of their own, in another function, a class or a module; and what the
# frames of a function that yields are called.
_NAMELESS = re.compile(
    r"(?:(?:\.<locals>)?\.|^)<(?:listcomp|setcomp|dictcomp|genexpr|lambda|generator)>$"
)


@lru_cache(maxsize=65536)
def is_users(file: str, function: str = "") -> bool:
    """Neither of the standard library, nor of an installed package, nor ours, nor made by one."""
    if not file or is_ours(file, function):
        return False
    if file.startswith("<"):
        return file.startswith(_TYPED) and not function.startswith(_MADE)
    return _PACKAGES.search(file) is None


@lru_cache(maxsize=65536)
def named_function(function: str) -> str:
    """The function that a reader would look for: a comprehension or a lambda belongs to the one
    that it stands in, `Notes.clean.<locals>.<listcomp>` to `Notes.clean`."""
    while (stripped := _NAMELESS.sub("", function)) != function:
        function = stripped or "<module>"
    return function


def users_place(stack: Sequence[Location]) -> Location:
    """The innermost line that is the user's own. Where there is none: the innermost of Python, or
    the innermost of all."""
    python = [place for place in stack if _is_python(place)]
    own = (place for place in python if is_users(place.file or "", place.function or ""))
    found = next(own, None) or next(iter(python or stack), Location())
    if not found.function:
        return found
    return Location(found.file, found.line, named_function(found.function))


def _is_python(place: Location) -> bool:
    """Snapshots may have frames of C++ too."""
    file = place.file or ""
    return file.endswith(_PYTHON) or file.startswith("<")
