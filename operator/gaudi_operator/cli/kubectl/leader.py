"""The check whether an operator leads, and the time since a resource last changed.

Both show whether the status of a resource is up to date: without a leader, no status changes.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.text_formats import parse_timestamp_text
from gaudi_runtime.units import plural

CLOCK_SKEW = timedelta(seconds=60)
"""The largest expected difference between the clocks of the operator and of this machine."""


def why_no_leader(lease: Mapping[str, Any] | None, now: datetime) -> str | None:
    """Return what is wrong with a Lease by which no operator leads, as a predicate; None if its holder leads.

    `lease` is None if the Lease does not exist.
    """
    if lease is None:
        return "does not exist (--lease selects another one)"
    spec = lease.get("spec") or {}
    renewed_at = parse_timestamp_text(spec.get("renewTime"))
    if not spec.get("holderIdentity") or renewed_at is None:
        return "has no holder"
    age = now - renewed_at
    if age > timedelta(seconds=spec.get("leaseDurationSeconds") or 0) + CLOCK_SKEW:
        return f"was last renewed {plural(age // timedelta(minutes=1), 'minute')} ago"
    return None


def minutes_without_change(resource: Manifest, now: datetime) -> int:
    """Return the whole minutes since the last change of a resource: its spec, metadata or status. 0 if unknown."""
    times = [parse_timestamp_text(entry.get("time")) for entry in resource["metadata"].get("managedFields") or ()]
    last_change = max((time for time in times if time), default=now)
    return max(0, (now - last_change) // timedelta(minutes=1))
