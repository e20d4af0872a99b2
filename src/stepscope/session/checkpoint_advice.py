"""Recommendations about checkpointing: our rules, and those of the user's own."""

from __future__ import annotations

from collections.abc import Sequence

from stepscope.advise.checkpoint_rules import RULES, Advice, Rule, recommend
from stepscope.model.checkpoint_events import ProfilingSummary

__all__ = ["Advice", "Rule", "advise_checkpointing"]


def advise_checkpointing(summary: ProfilingSummary, own_rules: Sequence[Rule]) -> Advice:
    return recommend(summary, (*RULES, *own_rules))
