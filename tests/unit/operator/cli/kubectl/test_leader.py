"""Whether an operator leads, and how long a resource has not changed."""

from datetime import timedelta
from typing import Any

from gaudi_operator.cli.kubectl.leader import minutes_without_change, why_no_leader
from gaudi_operator.core.text_formats import format_timestamp
from tests.support.builders import Object
from tests.unit.operator.core.resources import NOW


def lease(holder: str, seconds: int) -> Object:
    """Return a Lease that was renewed this many seconds ago."""
    renewed = format_timestamp(NOW - timedelta(seconds=seconds))
    return {"spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed}}


LEASES: dict[str, tuple[Any, str | None]] = {
    "held": (lease("operator-a", 5), None),
    "held, clocks differ": (lease("operator-a", 70), None),
    "expired": (lease("operator-a", 3 * 3600), "was last renewed 180 minutes ago"),
    "released": (lease("", 5), "has no holder"),
    "empty": ({}, "has no holder"),
    "missing": (None, "does not exist (--lease selects another one)"),
}


def test_operator_leads_only_while_it_renews_the_lease() -> None:
    found = {name: why_no_leader(given, NOW) for name, (given, _) in LEASES.items()}
    assert found == {name: reason for name, (_, reason) in LEASES.items()}


def changed(*seconds_ago: int) -> Object:
    times = [format_timestamp(NOW - timedelta(seconds=seconds)) for seconds in seconds_ago]
    return {"metadata": {"managedFields": [{"time": time, "subresource": "status"} for time in times]}}


def test_time_without_change_is_counted_from_the_last_write() -> None:
    assert minutes_without_change(changed(4000, 725), NOW) == 12


def test_time_without_change_is_zero_if_no_write_is_known() -> None:
    assert minutes_without_change({"metadata": {}}, NOW) == 0
