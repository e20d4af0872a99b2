"""Rules of the user's own: registered by name, made by their factory, told what all rules are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from stepscope.errors import UsageError
from stepscope.monitor.rule import Rule
from stepscope.monitor.rule_settings import RULES

__all__ = ["RuleFactory", "register_rule", "registered_rules", "unregister_rule"]

RuleFactory = Callable[[Mapping[str, Any]], Rule]  # of the options in [rules.<name>]

_registered: Final[dict[str, RuleFactory]] = {}


def register_rule(name: str, factory: RuleFactory) -> None:
    """From now on monitors have this rule too; the same name again replaces it.

    factory: given the options that stand in [rules.<name>], without those that all rules have
    (enabled, capture, hold). It makes a `Rule`, which needs one method of its own: `conditions`.
    """
    if not name.isidentifier():
        raise UsageError(f"{name!r} is no name for a rule: use letters, digits and underscores.")
    if name in (*RULES, "threshold"):
        raise UsageError(f"There is a rule {name!r} already: give yours another name.")
    _registered[name] = factory


def unregister_rule(name: str) -> None:
    _registered.pop(name, None)


def registered_rules() -> Mapping[str, RuleFactory]:
    return dict(_registered)
