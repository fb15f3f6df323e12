"""Situations of a pass, as conditions and status are judged by them."""

from collections.abc import Iterable
from typing import Any

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus
from gaudi_operator.core.admission.review import outlook
from gaudi_operator.core.pods.view import PodView
from gaudi_operator.core.rollout.planner import Policy, Progress, Step
from gaudi_operator.core.status.situation import Situation
from gaudi_runtime.contract.report import WarmupReport
from tests.unit.operator.core.pod_objects import condition, gate_condition, pod, view
from tests.unit.operator.core.resources import NOW, inference

DONE = Step(Progress.DONE, (), "")
WAITING = Step(Progress.WAITING, (), "")
PAUSED = Step(Progress.PAUSED, (), "")


def serving(
    name: str = "a", revision: str = "new", gate: str = "WarmedUp", said: WarmupReport | None = None
) -> PodView:
    """A pod that takes traffic."""
    conditions = (gate_condition(True, reason=gate), condition("Ready", True))
    return view(pod(name, revision=revision, conditions=conditions), said)


def warming(name: str = "b", revision: str = "new") -> PodView:
    """A pod that has not reported yet."""
    return view(pod(name, revision=revision))


def closed(name: str = "c") -> PodView:
    """A pod that has served and whose gate was closed."""
    return view(pod(name, revision="new", conditions=(gate_condition(False), condition("Ready", False))))


def situation(
    pods: Iterable[PodView] = (), step: Step | None = WAITING, desired: int = 2, unavailable: int = 0, **fields: Any
) -> Situation:
    """What a pass has found; nothing is wrong unless `fields` say so."""
    subject = fields.get("inference") or inference()
    given: dict[str, Any] = {
        "inference": subject,
        "before": GaudiInferenceStatus(),
        "violation": None,
        "current": "new",
        "previous": None,
        "stable": None,
        "revisions": (),
        "policy": Policy(desired, 1, unavailable),
        "step": step,
        "pods": tuple(pods),
        "choice": None,
        "in_place": None,
        "last_errors": {},
        "problem": None,
        "outlook": outlook(subject),
        "now": NOW,
        **fields,
    }
    return Situation(**given)
