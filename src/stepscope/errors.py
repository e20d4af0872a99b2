"""The errors of stepscope, all of them.

StepscopeError            something the user can act on; the message says what to do
├── UsageError            the command line, a setting or an argument is wrong
├── RunNotFoundError      there is no run where the user pointed
├── NoResultsError        metrics were asked for that nothing was profiled for
├── FormatError           a file is torn, foreign or of a newer schema
└── MissingExtraError     an optional part is not installed

The command line catches StepscopeError and nothing else, prints its one line, and exits with 2.
"""

from __future__ import annotations

__all__ = [
    "FormatError",
    "MissingExtraError",
    "NoResultsError",
    "RunNotFoundError",
    "StepscopeError",
    "UsageError",
]


class StepscopeError(Exception):
    """Something went wrong that the user can act on."""


class UsageError(StepscopeError, ValueError):
    """The command line, a setting or an argument is wrong."""


class RunNotFoundError(StepscopeError):
    """There is no readable run at the place the user named."""


class NoResultsError(StepscopeError, LookupError):
    """Metrics were asked for, and nothing was profiled under that name."""


class FormatError(StepscopeError):
    """A file is torn, was not written by stepscope, or by a newer stepscope."""


class MissingExtraError(StepscopeError):
    """An optional part is needed and not installed."""

    def __init__(self, part: str, extra: str) -> None:
        super().__init__(
            f"{part} is not installed. Install it with: pip install 'stepscope[{extra}]'"
        )
