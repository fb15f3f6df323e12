"""What the sim engine itself says in the report: that it is a simulation, and by script another plan."""

from collections.abc import Mapping

from gaudi_runtime.engines.sim.script import Misreport, SimScript

OTHER = "f" * 64
"""A digest of no plan."""

FIELDS = {Misreport.PLAN_HASH: "plan_hash", Misreport.BUCKETS_DIGEST: "buckets_digest"}


def report_fields(script: SimScript) -> Mapping[str, object]:
    """Fields of the WarmupReport that keep these values."""
    false = {} if script.misreport is None else {FIELDS[script.misreport]: OTHER}
    return {"simulated": True, **false}
