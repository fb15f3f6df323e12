"""Warm-up reports for the tests of core."""

from typing import Any

from gaudi_runtime.contract.report import MemorySplit, Phase, PhaseProgress, PlanGaps, WarmupReport

PLAN = "p" * 64
FULL = PhaseProgress(planned=8, warmed=8, captured=8)
PLANNED = {"gaps": PlanGaps(), "memory": MemorySplit(free=0, usable=0, graphs=0, kv_cache=0, kv_blocks=64)}
"""The fields that a pod reports with its plan."""


def report(phase: Phase = Phase.SERVING, **fields: Any) -> WarmupReport:
    """Return a report of the instance `first`, which has captured all graphs. `fields` override the report's fields."""
    given = {"instance": "first", "sequence": 1, "plan_hash": PLAN, "prompt": FULL, "decode": FULL, **PLANNED, **fields}
    return WarmupReport(phase=phase, **given)
