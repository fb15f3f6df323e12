"""Warm-up reports for the tests of core."""

from typing import Any

from gaudi_runtime.contract.report import Phase, PhaseProgress, WarmupReport

PLAN = "p" * 64
FULL = PhaseProgress(planned=8, warmed=8, captured=8)


def report(phase: Phase = Phase.SERVING, **fields: Any) -> WarmupReport:
    """Return a report of the instance `first`, which has captured all graphs. `fields` override the report's fields."""
    given = {"instance": "first", "sequence": 1, "plan_hash": PLAN, "prompt": FULL, "decode": FULL, **fields}
    return WarmupReport(phase=phase, **given)
