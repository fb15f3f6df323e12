"""A resource, and a controller that performs the decisions of the test."""

from collections.abc import Callable
from typing import Any

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus
from gaudi_operator.clock import Clock
from gaudi_operator.core.actions import Action, Apply, Decision, Event
from gaudi_operator.core.bucket_policy_check import BucketPolicyCheck
from gaudi_operator.core.observed import Observed
from gaudi_operator.shell.client import ApiClientResponse
from gaudi_operator.shell.kinds import SERVICE
from gaudi_operator.shell.metrics.monitoring import MonitoringMetrics
from gaudi_operator.shell.polling.reports import ReportPoller
from gaudi_operator.shell.polling.status_port import StatusPortUnreachable
from gaudi_operator.shell.reconciling.controller import Controller
from gaudi_operator.shell.reconciling.reconcile import Reconciler
from gaudi_operator.shell.watching.store import StoreKey
from gaudi_operator.shell.writing.event_writer import EventPublisher
from gaudi_operator.shell.writing.writer import Writer
from tests.support.builders import gaudi_inference
from tests.unit.operator.shell.memory import NAMESPACE, Memory, manifest
from tests.world.api import Object
from tests.world.clock import moment
from tests.world.loop import Loop

REFUSED, AWAY = ApiClientResponse(422, b"{}"), ApiClientResponse(503, b"{}")


class Operator:
    """A controller whose decisions come from the test.

    `wanted` has the actions of each decision, and `decided` has the times of the decisions.
    """

    def __init__(self) -> None:
        """Create the resource. The operator has not observed the resource yet."""
        self.loop, self.memory, self.metrics = Loop(), Memory(), MonitoringMetrics()
        self.resource = self.memory.exists(gaudi_inference("tiny", NAMESPACE), seen=False)
        self.wanted: tuple[Action, ...] = ()
        self.status = GaudiInferenceStatus(replicas=1)
        self.events: tuple[Event, ...] = ()
        self.requeue_after: float | None = None
        self.queued_checks: list[tuple[StoreKey, BucketPolicyCheck, Callable[[StoreKey], None]]] = []
        self.decided: list[float] = []
        self.decide: Callable[[Observed], Decision] = self._decide
        clock = Clock(now=lambda: moment(self.loop.time()), monotonic=self.loop.time)
        self.publisher = EventPublisher(self.memory.cluster, "operator-1", clock)
        self.reports = ReportPoller(
            lambda *news: self.controller.handle_report(*news), self.metrics, _silent, 10.0, clock
        )
        reconciler = Reconciler(
            self.memory.store,
            self.reports,
            Writer(self.memory.cluster, self.memory.store, clock),
            self.publisher,
            self.metrics,
            lambda observed: self.decide(observed),
            lambda *queued: self.queued_checks.append(queued),
            clock,
        )
        self.controller = Controller(reconciler, 4)

    def _decide(self, _: Observed) -> Decision:
        self.decided.append(self.loop.time())
        return Decision(self.wanted, self.status, self.events, self.requeue_after)

    def observe_objects(self, *manifests: Object) -> None:
        """Deliver objects as watch events, and run everything that is due immediately."""

        async def see() -> None:
            for each in manifests:
                self.controller.handle_change(each)

        self.loop.run_until_complete(see())
        self.pass_time(0)

    def pass_time(self, seconds: float) -> None:
        """Advance the clock."""
        self.loop.run_until(self.loop.time() + seconds)

    def outcomes(self, outcome: str) -> float:
        """Return the number of reconciles with this outcome."""
        found = self.metrics.registry.get_sample_value("gaudi_operator_reconciles_total", {"outcome": outcome})
        return found or 0.0

    def stalled(self) -> str | None:
        """Return the reason of the condition Stalled in the stored resource."""
        live = self.memory.api.objects["GaudiInference", "tiny"]
        conditions = live.get("status", {}).get("conditions", ())
        return next((each["reason"] for each in conditions if each["type"] == "Stalled"), None)


async def _silent(*_: Any) -> Any:
    raise StatusPortUnreachable("no answer")


def made(kind: str = "tiny") -> Apply:
    return Apply(manifest(SERVICE, kind, spec={"port": 1}), "it does not exist")
