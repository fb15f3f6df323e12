"""When a pass is due although nothing changes: judgements that only the clock can change."""

from collections.abc import Iterable
from datetime import datetime

from gaudi_operator.core.names import GATE
from gaudi_operator.core.pods import PodView
from gaudi_operator.core.preparation import UNPREPARED_SECONDS, unprepared_since
from gaudi_operator.core.serving_conditions import SETTLE_SECONDS
from gaudi_operator.core.troubles import UNSCHEDULABLE_SECONDS, unscheduled_since


def look_again_seconds(pods: Iterable[PodView], wait: float | None, now: datetime) -> float | None:
    """Seconds until the first such judgement; `wait` is that of the status. None when none is open."""
    waits = [] if wait is None else [wait]
    for pod in pods:
        if not pod.active:
            continue
        if since := unscheduled_since(pod):
            waits.append(UNSCHEDULABLE_SECONDS - (now - since).total_seconds())
        if since := unprepared_since(pod):
            waits.append(UNPREPARED_SECONDS - (now - since).total_seconds())
        opened = pod.conditions[GATE].since if pod.gate_open and not pod.ready else None
        if opened:
            waits.append(SETTLE_SECONDS - (now - opened).total_seconds())
    open_waits = [each for each in waits if each > 0]
    return min(open_waits) + 0.1 if open_waits else None
