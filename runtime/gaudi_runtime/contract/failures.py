"""The reasons of failed starts that may pass without a change of the spec. Operator and runtime share these lists."""

EXTERNAL_REASONS = frozenset({"DeviceUnavailable", "DiskFull", "HubUnreachable", "PortUnavailable"})
"""Failures with a cause outside the revision. They never fail a revision, however often they repeat."""

CRASH_REASONS = frozenset({"Crashed", "EngineLost"})
"""Failures that a revision may cause. One of them does not fail the revision, but a crash loop does."""

PASSING_REASONS = EXTERNAL_REASONS | CRASH_REASONS
"""Failures after which a new process may succeed, so the container restarts."""

RESTART_SECONDS = 300.0
"""The time for which a process reports a passing failure before it exits.

This is the longest back-off of the kubelet, which forgets its back-off after ten minutes without a restart. So an
outage of an hour costs at most twelve attempts, and the report can be read between two attempts.
"""
