"""OptimizationRecommender: what to change about checkpointing."""

from __future__ import annotations

from stepscope.errors import UsageError
from stepscope.model.checkpoint_advice import OptimizationRecommendation
from stepscope.model.checkpoint_events import ProfilingSummary
from stepscope.session.checkpoint_advice import Rule, advise_checkpointing

__all__ = ["OptimizationRecommender"]


class OptimizationRecommender:
    """Judges a summary by rules, ours and those of `add_rule`.

    The first three rules are those of the source document: layers that are recomputed more than
    twice for each checkpoint (high), layers with a cache hit rate below one half (medium), layers
    whose checkpoints take more than three times as long as recomputing them (low). The impact of
    the second is an invented "+30 points" there; here it is the time that hits would have saved.
    The others: layers that save far less memory for a millisecond of recomputing than the median
    one, recomputing ahead where the device has a stream for it, and checkpoints that save less
    than they hold. Their priority follows from the share of the time that is at stake.
    """

    def __init__(self) -> None:
        self._rules: list[Rule] = []
        self.errors: list[str] = []  # rules that failed in the last call, and why

    def add_rule(self, rule: Rule) -> None:
        """A function that takes a ProfilingSummary and gives OptimizationRecommendations."""
        if not callable(rule):
            raise UsageError(
                f"rule={rule!r} is not possible: pass a function that takes a ProfilingSummary."
            )
        self._rules.append(rule)

    def generate_recommendations(
        self, summary: ProfilingSummary
    ) -> list[OptimizationRecommendation]:
        """By priority, then by what is at stake. A rule that fails gives nothing, and is listed in
        `errors`."""
        if not isinstance(summary, ProfilingSummary):
            raise UsageError(
                f"summary={summary!r} is not possible: pass what get_summary() of a"
                " CheckpointProfiler gave."
            )
        given, self.errors = advise_checkpointing(summary, self._rules)
        return given
