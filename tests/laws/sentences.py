"""Checks that the messages, the conditions and the fields of a status do not contradict each other.

The checks use only the written resource, so they apply to a simulation and to any API server.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Shown:
    """A written status: its conditions by type, its desired replicas and its pod rows."""

    status: Mapping[str, Any]
    conditions: Mapping[str, Mapping[str, str]]
    desired: int

    @property
    def serving(self) -> int:
        """The number of ready pods."""
        return int(self.status.get("readyReplicas", 0))

    @property
    def expected(self) -> int:
        """The number of pods that should be ready."""
        return int(self.status.get("expectedReadyReplicas", 0))

    @property
    def rows(self) -> Sequence[Row]:
        """The rows of all pods."""
        found: Sequence[Row] = self.status.get("pods", ())
        return found

    @property
    def current(self) -> list[Row]:
        """The rows of the current revision."""
        revision = self.status.get("revision", {}).get("current")
        return [row for row in self.rows if row["revision"] == revision]

    @property
    def old(self) -> list[Row]:
        """The rows of all other revisions."""
        return [row for row in self.rows if row not in self.current]

    def says(self, kind: str) -> tuple[str | None, str | None, str]:
        """Return (status, reason, message) of a condition, or (None, None, "") if the condition is missing."""
        found = self.conditions.get(kind, {})
        return found.get("status"), found.get("reason"), found.get("message", "")


NUMBERS: tuple[tuple[str, str, Callable[[Shown], int]], ...] = (
    ("Ready", r"(\d+) (?:of \d+ replicas|pods \(\d+ desired\)) serve revision", lambda s: _ready(s.current)),
    ("Ready", r"(\d+) replicas? serves? revision", lambda s: s.desired),
    ("Ready", r"With older revisions, (\d+) (?:of \d+ replicas|pods \(\d+ desired\)) serve", lambda s: s.serving),
    ("Ready", r"With older revisions, \d+ of (\d+) replicas serve", lambda s: s.desired),
    ("Ready", r"(\d+) old pods? (?:is|are) left\.", lambda s: len(s.old)),
    ("Ready", r"(\d+) pods? (?:is|are) not created yet", lambda s: s.desired - len(s.current)),
    ("Ready", r"(\d+) pods run, but only \d+", lambda s: len(s.rows)),
    ("Ready", r"\d+ pods run, but only (\d+)", lambda s: s.desired),
    ("Available", r"(\d+) pods? (?:is|are) ready", lambda s: s.serving),
    ("Ready", r"\d+ pods \((\d+) desired\) serve", lambda s: s.desired),
    ("WarmedUp", r"^(\d+) (?:of \d+ replicas|pods \(\d+ desired\))", lambda s: sum(row["gate"] for row in s.current)),
    ("WarmedUp", r"^\d+ pods \((\d+) desired\)", lambda s: s.desired),
    ("WarmedUp", r"^\d+ of (\d+) replicas", lambda s: s.desired),
    ("WarmedUp", r"(\d+) pods? (?:is|are) not created yet", lambda s: s.desired - len(s.current)),
    ("Degraded", r"(\d+) replicas? (?:is|are) ready", lambda s: s.serving),
    ("Degraded", r"(\d+) replicas? (?:was|were) lost", lambda s: s.expected - s.serving),
    ("Degraded", r"but (\d+) were ready before", lambda s: s.expected),
)
"""(condition, pattern of a number in its message, function that returns this number from the fields)."""

WAITING: Mapping[str, Callable[[Row], bool]] = {
    "held by scheduling gates": lambda row: row["phase"] == "SchedulingGated",
    "warming up": lambda row: not row["gate"],
    "failed to start or serve": lambda row: row["phase"] == "Failed",
    "warmed up but not ready": lambda row: row["gate"] or row["phase"] in ("Serving", "Draining"),
}
"""The state of waiting pods in a message, and a check that holds for the row of each such pod."""


def disagreements(resource: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each contradiction within the status of a resource, or none for an older spec."""
    status = resource.get("status") or {}
    is_observed = status.get("observedGeneration") == resource["metadata"]["generation"]
    if not is_observed or len(status.get("pods", ())) != status.get("replicas", 0):
        return  # The status is empty or older than the spec, or more pods exist than it lists.
    conditions = {each["type"]: each for each in status.get("conditions", ())}
    shown = Shown(status, conditions, resource["spec"].get("replicas", 1))
    yield from _numbers(shown)
    yield from _counts_of_waiting(shown)
    yield from _named_pods(shown)
    yield from _between_conditions(shown)
    yield from _reasons(shown)


def _ready(rows: Sequence[Row]) -> int:
    return sum(row["ready"] for row in rows)


def _numbers(s: Shown) -> Iterator[str]:
    for kind, form, count in NUMBERS:
        message = s.says(kind)[2]
        if (said := re.search(form, message)) and int(said[1]) != count(s):
            yield f"{kind} says {said[1]}, and the fields say {count(s)}: {message}"


def _counts_of_waiting(s: Shown) -> Iterator[str]:
    """Yield a sentence for each wrong count of pods that are not ready yet."""
    _, reason, message = s.says("Ready")
    if "(details in status.pods)" in message:
        others, listed = [row for row in s.current if not row["ready"]], message.partition("; ")[2]
    elif reason == "RolloutPaused" and "With older revisions, " in message:
        others, listed = [row for row in s.rows if not row["ready"]], message.partition("With older revisions, ")[2]
    else:
        return
    counts = {
        what: int(number)
        for number, what in re.findall(r"(\d+) pods? (?:is|are) (?!not created)(.+?)(?=, \d| and \d|\.| \()", listed)
    }
    if sum(counts.values()) != len(others):
        yield f"Ready counts {sum(counts.values())} pods that do not serve, and there are {len(others)}: {message}"
    for what, count in counts.items():
        found = sum(WAITING[what](row) for row in others) if what in WAITING else count
        if found < count:
            yield f"Ready says that {count} pods are {what}, and the rows show {found}: {message}"


def _named_pods(s: Shown) -> Iterator[str]:
    """Yield a sentence for each pod whose row contradicts a message about its readiness."""
    _, _, ready = s.says("Ready")
    _, lost, degraded = s.says("Degraded")
    cannot = re.findall(r"Pod (\S+) (?:is unschedulable|is held by|receives no traffic|cannot start|waits for)", ready)
    away = re.findall(r"Not ready: ([^.]+)\.", degraded)
    below = re.findall(r"requires: ([^.]+)\.", degraded) if lost == "BelowThresholds" else []
    rows = {row["name"]: row for row in s.rows}
    for name in (*cannot, *(each for names in away for each in names.split(", "))):
        if name in rows and rows[name]["ready"]:
            yield f"a message says that {name} does not serve, and its row says that it does: {ready} {degraded}"
    for name in (each for names in below for each in names.split(", ")):
        if not rows[name]["ready"]:
            yield f"Degraded says that {name} serves, and its row says that it does not: {degraded}"


def _between_conditions(s: Shown) -> Iterator[str]:
    ready, stalled, reconciling = s.says("Ready"), s.says("Stalled"), s.says("Reconciling")
    available, warmed, degraded = (s.says(kind) for kind in ("Available", "WarmedUp", "Degraded"))
    if ready[:2] == ("True", "Serving"):
        for kind, found in (("Available", available[0] == "True"), ("WarmedUp", warmed[0] == "True")):
            if not found:
                yield f"all replicas serve, and {kind} denies it: {s.says(kind)}"
        if degraded[1] == "ReplicasLost":
            yield f"all replicas serve, and Degraded says that some are lost: {degraded[2]}"
    if stalled[0] == "True" and stalled[1:] != ready[1:]:
        yield f"Stalled says {stalled[1]}: {stalled[2]} Ready says {ready[1]}: {ready[2]}"
    if reconciling[0] == "True" and reconciling[1:] != ready[1:]:
        yield f"Reconciling says {reconciling[1]}: {reconciling[2]} Ready says {ready[1]}: {ready[2]}"
    if ready[1] == "WarmingUp" and warmed[0] == "True":
        yield f"Ready says that pods warm up, and WarmedUp that all have: {ready[2]} {warmed[2]}"
    if (ready[1], warmed[1]) in (("WarmingUp", "NoPodWarmingUp"), ("StartingPods", "WarmingUp")):
        yield f"Ready says {ready[1]}, and WarmedUp says {warmed[1]}: {ready[2]} {warmed[2]}"
    if "older revisions serve until" in ready[2] and not _ready(s.old):
        yield f"Ready says that older pods serve, and none does: {ready[2]} {available[2]}"
    if degraded[1] == "AsExpected" and s.serving < s.expected:
        yield f"{s.serving} of {s.expected} expected pods serve, and Degraded denies a loss: {degraded[2]}"
    for name in re.findall(r"Revision (\S+) runs instead", ready[2]):
        if name != s.status["revision"].get("current"):
            yield f"Ready says that revision {name} runs, and status.revision says otherwise: {s.status['revision']}"


def _reasons(s: Shown) -> Iterator[str]:
    """Yield a sentence for each contradiction between the reason of Ready and the pods."""
    _, reason, message = s.says("Ready")
    if reason == "RollingOut" and not s.old:
        yield f"Ready says {reason}, and no pod of an older revision is there: {message}"
    waiting = {row["phase"] for row in s.current if not row["ready"] and not row["gate"]}
    if reason == "WarmingUp" and waiting <= {"SchedulingGated", "Unschedulable"}:
        yield f"Ready says {reason}, and no pod warms up ({', '.join(sorted(waiting))}): {message}"
    if reason in ("StartingPods", "WarmingUp") and s.old:
        yield f"Ready says {reason}, and {len(s.old)} pods of older revisions are there: {message}"
