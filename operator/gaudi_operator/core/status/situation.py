"""What one pass has found out, gathered for the judgement of conditions and status; a Verdict is one such judgement."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from gaudi_operator.api.v1alpha1.status import ConditionStatus, GaudiInferenceStatus
from gaudi_operator.core.admission.review import Outlook
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.pods.view import PodView
from gaudi_operator.core.resource import Inference
from gaudi_operator.core.rollout.backoff import Record
from gaudi_operator.core.rollout.planner import Policy, Step
from gaudi_operator.core.rollout.revision import Revision, revision_inputs, same_inputs
from gaudi_operator.core.rollout.target import Choice
from gaudi_runtime.errors import Problem

TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN


@dataclass(frozen=True)
class Verdict:
    """Status, reason and message of a condition; the type and the time are added later."""

    status: ConditionStatus
    reason: str
    message: str


@dataclass(frozen=True)
class Situation:
    """`current`, `previous` and `stable` are names of revisions; `problem` is the worst thing that needs a person.

    `stable` was last rolled out wholly. `revisions` are all kept ones, the current one among them.

    `choice` is None where a refused spec leaves nothing to choose, `in_place` says why mode auto does not surge, and
    `last_errors` how the last containers of pods ended, by pod; `ends` is what is remembered of that, by revision.
    `outlook` is what is known of the spec's plan without a pod, None where no plan is possible. `autoscaler` is the
    live one, None where there is none.
    """

    inference: Inference
    before: GaudiInferenceStatus
    violation: Problem | None
    current: str | None
    previous: str | None
    stable: str | None
    revisions: tuple[Revision, ...]
    policy: Policy
    step: Step | None
    pods: tuple[PodView, ...]
    choice: Choice | None
    in_place: str | None
    last_errors: Mapping[str, str]
    problem: Problem | None
    outlook: Outlook | None
    now: datetime
    ends: Mapping[str, Record] = field(default_factory=dict)
    autoscaler: Manifest | None = None

    @property
    def desired(self) -> int:
        """Desired replicas."""
        return self.policy.desired

    @property
    def runs_the_spec(self) -> bool:
        """Whether the current revision is that of the spec, neither the last good one nor another that is pinned."""
        if self.choice is None or self.inference.spec.rollout.revision is None:
            return self.choice is None or not self.choice.rolled_back
        return same_inputs(self.choice.current.inputs, revision_inputs(self.inference))

    @property
    def active(self) -> tuple[PodView, ...]:
        """Pods that count as replicas."""
        return tuple(pod for pod in self.pods if pod.active)

    @property
    def updated(self) -> tuple[PodView, ...]:
        """Pods of the current revision."""
        return tuple(pod for pod in self.active if pod.revision == self.current)

    @property
    def serving(self) -> tuple[PodView, ...]:
        """Pods that take traffic, of any revision."""
        return tuple(pod for pod in self.active if pod.ready)

    @property
    def serving_updated(self) -> tuple[PodView, ...]:
        """Pods of the current revision that take traffic."""
        return tuple(pod for pod in self.updated if pod.ready)

    @property
    def old(self) -> tuple[PodView, ...]:
        """Pods of older revisions."""
        return tuple(pod for pod in self.active if pod.revision != self.current)
