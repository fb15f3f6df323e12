"""Warm-up reports for the tests of core."""

from typing import Any

from gaudi_runtime.contract.report import MemorySplitReport, Phase, PhaseProgressReport, PlanGapsReport, WarmupReport

PLAN = "p" * 64
FULL = PhaseProgressReport(planned=8, warmed=8, captured=8)
PLANNED = {"gaps": PlanGapsReport(), "memory": MemorySplitReport(free=0, usable=0, graphs=0, kv_cache=0, kv_blocks=64)}
"""The fields that a pod reports with its plan."""


def report(phase: Phase = Phase.SERVING, **fields: Any) -> WarmupReport:
    """Return a report of the instance `first`, which has captured all graphs. `fields` override the report's fields."""
    given = {"instance": "first", "sequence": 1, "plan_hash": PLAN, "prompt": FULL, "decode": FULL, **PLANNED, **fields}
    return WarmupReport(phase=phase, **given)
