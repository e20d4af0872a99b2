"""A summary by hand, through the real analysis."""

from __future__ import annotations

from stepscope.advise.catalogue import advise
from stepscope.analyze.findings import findings
from stepscope.analyze.loop import Loop
from stepscope.analyze.overhead import OwnCost
from stepscope.analyze.resources import ProcessUse, Resources
from stepscope.analyze.summarize import Recorded, summarize
from stepscope.model.summary import Summary
from tests.unit.analyze.test_findings import trained

RESOURCES = Resources(
    cpu_count=4.0,
    memory_total_bytes=16e9,
    program=ProcessUse(1, cpu_cores=1.0, peak_rss_bytes=1.2e9),
)
COST = OwnCost(calls=1000, probes=9000, call_cost_ns=400.0, probe_cost_ns=50.0, startup_ns=90e6)


def summary_of(*loops: Loop, cost: OwnCost = COST, events: int = 1000) -> Summary:
    recorded = Recorded(RESOURCES, [cost], OwnCost(launcher_cpu_ns=150e6), events)
    return summarize({"name": "train"}, loops, recorded, advise(findings(loops, RESOURCES)))


def input_bound() -> Summary:
    return summary_of(trained(0, 50, 300.0))
