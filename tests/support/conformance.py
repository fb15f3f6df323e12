"""Numbered checks that a status conforms to the conventions of kstatus, `kubectl wait` and GitOps tools.

C1  condition types are distinct, and each condition has a CamelCase reason and a sentence as its message
C2  every condition has the observed generation of the status, which is not above the object's generation
C3  Ready, Reconciling and Stalled are always present
C4  Reconciling and Stalled are never True at the same time
C5  Ready is False or Unknown whenever Reconciling or Stalled is True
C6  Reconciling or Stalled is True whenever Ready is not True, unless a user has paused the rollout
C7  while Stalled is True, Ready has the same reason
C8  every transition time is in UTC with whole seconds
"""

import re
from collections.abc import Mapping
from typing import Any

_MOMENT = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
_WORD = re.compile(r"^[A-Z][A-Za-z0-9]*$")


def violations(resource: Mapping[str, Any]) -> list[str]:
    """Return one text such as "C4: ..." for each check that the status of an object violates."""
    status = resource["status"]
    conditions = status.get("conditions", [])
    by_type = {each["type"]: each for each in conditions}
    found = [*_form(conditions), *_generations(resource["metadata"]["generation"], status, conditions)]
    missing = [kind for kind in ("Ready", "Reconciling", "Stalled") if kind not in by_type]
    if missing:
        return [*found, f"C3: {', '.join(missing)} missing"]
    return [*found, *_agreement(by_type)]


def kstatus(resource: Mapping[str, Any]) -> str:
    """Return the status that kstatus computes from generation and conditions: InProgress, Failed or Current."""
    status = resource.get("status") or {}
    shown = {each["type"]: each["status"] for each in status.get("conditions", [])}
    if status.get("observedGeneration") != resource["metadata"]["generation"] or shown.get("Reconciling") == "True":
        return "InProgress"
    if shown.get("Stalled") == "True":
        return "Failed"
    return "Current" if shown.get("Ready", "True") == "True" else "InProgress"


def _form(conditions: list[Mapping[str, Any]]) -> list[str]:
    types = [each["type"] for each in conditions]
    found = [f"C1: {kind} is listed twice" for kind in set(types) if types.count(kind) > 1]
    for each in conditions:
        if not _WORD.match(each["reason"]) or not each["message"].strip().endswith((".", "!", "?")):
            found.append(f"C1: {each['type']} says {each['reason']!r}: {each['message']!r}")
        if not _MOMENT.match(each["lastTransitionTime"]):
            found.append(f"C8: {each['type']} has the transition time {each['lastTransitionTime']!r}")
    return found


def _generations(generation: int, status: Mapping[str, Any], conditions: list[Mapping[str, Any]]) -> list[str]:
    observed = status.get("observedGeneration")
    if not isinstance(observed, int) or observed > generation:
        return [f"C2: the status observes generation {observed} of {generation}"]
    return [
        f"C2: {each['type']} observes generation {each.get('observedGeneration')}, the status {observed}"
        for each in conditions
        if each.get("observedGeneration") != observed
    ]


def _agreement(conditions: Mapping[str, Mapping[str, Any]]) -> list[str]:
    ready, reconciling, stalled = (conditions[kind] for kind in ("Ready", "Reconciling", "Stalled"))
    bad = [each["type"] for each in (reconciling, stalled) if each["status"] == "True"]
    found = []
    if len(bad) == 2:
        found.append("C4: Reconciling and Stalled are both True")
    if bad and ready["status"] == "True":
        found.append(f"C5: Ready is True together with {' and '.join(bad)}")
    if not bad and ready["status"] != "True" and reconciling["reason"] != "RolloutPaused":
        found.append(f"C6: Ready is {ready['status']}, and neither Reconciling nor Stalled is True")
    if stalled["status"] == "True" and ready["reason"] != stalled["reason"]:
        found.append(f"C7: Ready says {ready['reason']}, Stalled says {stalled['reason']}")
    return found
