"""status.plan.advice: the saving of a learned plan, as the pod with the most traffic reports it."""

import json
from typing import Any

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus
from gaudi_operator.core.pods.view import PodView
from gaudi_operator.core.status.plan import plan_state
from gaudi_operator.core.status.plan_advice import plan_advice
from gaudi_runtime.contract.preparation import Preparation
from gaudi_runtime.contract.report import Phase, PlanAdvice, PlanCost, ServedPhase, ServedTraffic
from tests.unit.operator.core.reports import FULL, report
from tests.unit.operator.core.states import serving, state_of, warming
from tests.unit.operator.core.stories import pod_names, served, status


def advice(graphs: int = 24, seconds: float = 240.2) -> PlanAdvice:
    now = PlanCost(graphs=84, warmup_seconds=778.4, prompt_padding=1.2, decode_padding=1.1)
    return PlanAdvice(now=now, learned=PlanCost(graphs=graphs, warmup_seconds=seconds))


def busy(name: str, batches: int, found: PlanAdvice | None = None, revision: str = "new", **fields: Any) -> PodView:
    met = ServedTraffic(prompt=ServedPhase(hits=batches // 2), decode=ServedPhase(misses=batches // 2))
    return serving(name, revision, said=report(advice=found, served=met, **fields))


def before(*pods: PodView) -> GaudiInferenceStatus:
    """Return the status that the operator wrote when these pods existed."""
    return GaudiInferenceStatus(plan=plan_state(state_of(pods)))


def pod_of(*pods: PodView, written: GaudiInferenceStatus | None = None) -> str | None:
    found = plan_advice(state_of(pods, previous_status=written or GaudiInferenceStatus()))
    return found.pod if found else None


def message(found: PlanAdvice, **fields: Any) -> str:
    shown = plan_advice(state_of([busy("a", 10, found, **fields)]))
    assert shown is not None
    return shown.message


def test_message_has_both_plans_and_the_command() -> None:
    assert message(advice()) == (
        "A plan learned from the traffic so far needs 24 graphs instead of 84 and warms up in about 4 instead of 13 "
        "minutes, with no more padding. To apply it, run: kubectl gaudi plan learn tiny -n models --apply"
    )


def test_short_warm_up_is_in_seconds() -> None:
    assert "about 59 instead of 778 s," in message(advice(seconds=59.4))


def test_buckets_without_graphs_are_not_called_graphs() -> None:
    plain = FULL.model_copy(update={"preparation": Preparation.NOTHING, "captured": 0})
    assert "needs 24 buckets instead of 84" in message(advice(), prompt=plain, decode=plain)


def test_plan_status_names_the_pod_of_the_advice() -> None:
    plan = plan_state(state_of([busy("a", 10, advice())]))
    assert plan is not None
    assert plan.advice is not None
    assert plan.advice.pod == "a"


def test_advice_comes_from_the_pod_with_the_most_traffic() -> None:
    assert pod_of(busy("a", 10, advice()), busy("b", 30, advice()), busy("c", 20, advice())) == "b"
    assert pod_of(busy("a", 10, advice()), busy("b", 30)) is None


def test_advice_of_an_older_revision_is_ignored() -> None:
    assert pod_of(busy("a", 30, advice(), revision="old"), busy("b", 10)) is None


def test_advice_is_kept_when_another_pod_has_more_traffic() -> None:
    written = before(busy("a", 30, advice(24)), busy("b", 20, advice(25)))
    assert pod_of(busy("a", 30, advice(24)), busy("b", 40, advice(25)), written=written) == "a"


def test_advice_of_another_pod_replaces_missing_advice() -> None:
    written = before(busy("a", 30, advice()))
    assert pod_of(busy("a", 30), busy("b", 40, advice()), written=written) == "b"
    assert pod_of(busy("b", 40, advice()), written=written) == "b"


def test_advice_is_kept_until_its_pod_reports_again() -> None:
    written = before(busy("a", 30, advice()))
    assert pod_of(serving("a"), serving("b"), written=written) == "a"


def test_advice_is_removed_if_no_pod_serves() -> None:
    written = before(busy("a", 30, advice()))
    assert pod_of(warming("b"), written=written) is None


def test_status_changes_only_when_the_advice_changes() -> None:
    cluster = served(replicas=2)
    first, second = pod_names(cluster)

    def poll(batches: tuple[int, int], graphs: int) -> str:
        for name, count in zip((first, second), batches, strict=True):
            met = ServedTraffic(prompt=ServedPhase(hits=count))
            cluster.report(name, Phase.SERVING, served=met, advice=advice(graphs))
        cluster.operate()
        return json.dumps(status(cluster)["plan"]["advice"])

    shown = poll((10, 20), 24)
    assert json.loads(shown)["pod"] == second
    assert [poll((30, 20), 24), poll((30, 40), 24), poll((50, 40), 24)] == [shown] * 3
    assert "needs 30 graphs" in json.loads(poll((50, 40), 30))["message"]
