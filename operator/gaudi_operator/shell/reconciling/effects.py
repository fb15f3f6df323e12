"""Everything that a reconcile may touch, and what both it and the gates beside it do with that: look, act, tell."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from gaudi_operator.clock import SYSTEM, Clock
from gaudi_operator.core.actions import Action, Decision
from gaudi_operator.core.answers import AnyQuestion
from gaudi_operator.core.observed import Manifest, Observed
from gaudi_operator.errors import Stalled
from gaudi_operator.shell.metrics.monitoring import Metrics
from gaudi_operator.shell.reconciling.gates import Gates
from gaudi_operator.shell.reconciling.resource_worker import ResourceWorker, subject_of
from gaudi_operator.shell.reports import Reports
from gaudi_operator.shell.watching.store import Key, Store
from gaudi_operator.shell.writing.apply import Writer
from gaudi_operator.shell.writing.events import Publisher

log = logging.getLogger(__name__)

Ask = Callable[[Key, AnyQuestion, Callable[[Key], None]], None]
"""Has a question of a resource answered; the last one is called with its key then."""


@dataclass(frozen=True)
class Effects:
    """`ask` is None where decisions answer their own questions about plans."""

    store: Store
    reports: Reports
    writer: Writer
    events: Publisher
    metrics: Metrics
    clock: Clock = SYSTEM
    ask: Ask | None = None

    def observe(self, key: Key, gates: Gates) -> Observed | None:
        """The picture of this moment, gates that are on their way in it; None when the resource is gone."""
        resource = self.store.resource(key)
        written = self.writer.status_written_at(resource["metadata"]["uid"]) if resource else None
        found = self.store.observe(key, self.reports.latest, self.clock.now(), written)
        return gates.assumed(found) if found else None

    async def act(self, key: Key, action: Action, worker: ResourceWorker) -> Stalled | None:
        """Do one action unless the same was refused a moment ago; returns the refusal. Raises OperatorError where the
        API server did not get to that.
        """
        if known := worker.refusal(action):
            return known
        try:
            await self.writer.perform(key, action)
        except Stalled as error:
            worker.refuse(action, error)
            log.warning("%s", error, extra=of(key))
            return error
        worker.accept(action)
        words = (type(action).__name__, subject_of(action), action.reason)
        log.info("%s %s: %s", *words, extra=of(key))
        return None

    def tell(self, resource: Manifest, decision: Decision) -> None:
        """The events of a decision."""
        for event in decision.events:
            self.events.publish(resource, event)


def of(key: Key) -> dict[str, str]:
    """What a line of the log is about."""
    return {"resource": f"{key.namespace}/{key.name}"}
