"""Gates that close while requests wait for recompilations, and open again afterwards."""

import json
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_operator.api.v1alpha1.warmup import OnRecompiles, Readiness
from gaudi_operator.core.actions import SetGate
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.gate.condition import pods_with_gate_conditions
from gaudi_operator.core.gate.judgement import RECOMPILING, judge_gates
from gaudi_operator.core.pods.pod_view import PodView
from gaudi_operator.core.problems.criteria import RoomCriterion
from gaudi_operator.core.text_formats import format_timestamp
from gaudi_runtime.contract.report import Phase, RequestCountsReport
from gaudi_runtime.engines.vllm.workers.hpu import HpuVerbs
from gaudi_runtime.report.report_board import ReportBoard
from gaudi_runtime.report.serving_counters import CounterPublisher
from gaudi_runtime.traffic.serving_histogram import ServingHistogram, ServingPaddedShape
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.pod_objects import condition, gate_condition, pod, view
from tests.unit.operator.core.reports import FULL, PLAN, report
from tests.unit.operator.core.resources import NOW, inference
from tests.unit.operator.core.states import problem_of, state_of
from tests.unit.operator.core.stories import pod_names, served
from tests.unit.runtime.engines.vllm.workers.card import Card
from tests.unit.runtime.engines.vllm.workers.stand_in import bridge, plugin, serve

CLOSING = Readiness(on_recompiles=OnRecompiles.CLOSE_GATE, max_recent_recompiles=3)
RECORD = f"Container c1, instance first, plan {PLAN}."


def serving(name: str, recent: int) -> PodView:
    conditions = (gate_condition(True, RECORD), condition("Ready", True))
    return view(pod(name, conditions=conditions), report(recent_recompiles=recent))


def closed(name: str, recent: int, reason: str = RECOMPILING) -> PodView:
    conditions = (gate_condition(False, reason=reason), condition("Ready", False))
    return view(pod(name, conditions=conditions), report(recent_recompiles=recent))


def gates(*pods: PodView, readiness: Readiness = CLOSING, promised: int = 1) -> dict[str, bool]:
    return {gate.pod: gate.open for gate in judge_gates(pods, readiness, promised, Deadlines(NOW))}


def test_pod_above_the_limit_is_closed_with_a_reason() -> None:
    (gate,) = judge_gates([serving("a", 0), serving("b", 4)], CLOSING, 1, Deadlines(NOW))
    assert (gate.pod, gate.open, gate.reason) == ("b", False, "Recompiling")
    assert gate.message == (
        "Requests waited for 4 compiles within five minutes. The gate opens after five minutes without a compile."
    )


async def reported(lazy: bool, *forwards: tuple[int, float]) -> dict[str, Any]:
    """Return a worker's report after forwards, each given as query tokens and seconds of compilation."""
    card = Card(lazy=lazy)
    runner = plugin(card)
    verbs = HpuVerbs(runner, bridge(card))
    verbs.plan([], [])
    verbs.start_serving()
    histogram = ServingHistogram(lambda _, real: ServingPaddedShape(real, warm=False))
    for query, seconds in forwards:
        card.compiled.add((32, query, 0, True))
        card.compile(seconds)
        verbs.step(partial(serve, runner, ("prompt", (1, query, 0))))
    counters = json.loads(json.dumps(verbs.counters()))
    histogram.add_rows(
        counters["met"], compile_times=counters["compile_times"], step_compiles=counters.get("step_compiles", ())
    )
    board = ReportBoard(PLAN)
    CounterPublisher(board).publish(histogram, RequestCountsReport(), 0.0)
    names = ("recent_recompiles", "recompiles_since_ready", "cold_shapes", "served")
    return {name: getattr(board.report(), name) for name in names}


@pytest.mark.parametrize("lazy", [True, False], ids=["HpuGraphs", "TorchCompile"])
@pytest.mark.parametrize(("seconds", "too_many"), [(0.4, True), (0.01, False)])
async def test_recompilations_on_a_card_close_gates_and_fail_canaries(
    lazy: bool, seconds: float, too_many: bool
) -> None:
    met = await reported(lazy, *((32 * each, seconds) for each in range(1, 5)))
    hot = replace(serving("b", 0), report=report(**met))
    assert gates(serving("a", 0), hot) == ({"b": False} if too_many else {})
    canary = {"observeSeconds": 1, "maxRecompiles": 3}
    found = problem_of(hot, state_of(inference=inference(rollout={"canary": canary})), RoomCriterion(to_come=False))
    assert (found.reason if found else None) == ("TooManyRecompiles" if too_many else None)
    assert met["served"].small_compiles == (0 if too_many else 4)


def test_pod_at_the_limit_stays_open() -> None:
    assert gates(serving("a", 0), serving("b", 3)) == {}


def test_gates_stay_open_with_policies_ignore_and_warn() -> None:
    for mode in (OnRecompiles.IGNORE, OnRecompiles.WARN):
        lenient = CLOSING.model_copy(update={"on_recompiles": mode})
        assert gates(serving("a", 0), serving("b", 99), readiness=lenient) == {}


def test_closed_pod_stays_closed_while_any_recompile_is_recent() -> None:
    assert gates(serving("a", 0), closed("b", 1)) == {}


def test_closed_pod_opens_without_recent_recompiles() -> None:
    assert gates(serving("a", 0), closed("b", 0)) == {"b": True}


def test_pod_closed_for_another_reason_opens_immediately() -> None:
    assert gates(serving("a", 0), closed("b", 1, reason="NotServing")) == {"b": True}


def test_closed_pod_opens_after_the_policy_is_removed() -> None:
    assert gates(serving("a", 0), closed("b", 9), readiness=Readiness()) == {"b": True}


def test_minimum_available_pods_stay_open_despite_recompiles() -> None:
    assert gates(serving("a", 9), serving("b", 9), promised=2) == {}


def test_last_pod_stays_open_without_a_minimum() -> None:
    assert gates(serving("a", 9), promised=0) == {}


def test_pods_with_most_recompiles_close_first_above_the_minimum() -> None:
    pods = serving("a", 5), serving("b", 9), serving("c", 7)
    assert gates(*pods, promised=2) == {"b": False}
    assert gates(*pods, promised=1) == {"b": False, "c": False}


def test_unreachable_pod_is_assumed_to_have_no_recompiles() -> None:
    conditions = (gate_condition(True, RECORD), condition("Ready", True))
    silent = view(pod("a", conditions=conditions))
    none = CLOSING.model_copy(update={"max_recent_recompiles": 0})
    assert gates(silent, serving("b", 0), readiness=none) == {}


def test_closed_pod_with_fewest_recompiles_opens_below_the_minimum() -> None:
    assert gates(serving("a", 0), closed("b", 9), closed("c", 2), promised=2) == {"c": True}


def test_no_second_pod_opens_before_the_first_is_ready() -> None:
    just_now = format_timestamp(NOW - timedelta(seconds=1))
    opened = (gate_condition(True, RECORD, since=just_now), condition("Ready", False))
    coming = view(pod("b", conditions=opened), report(recent_recompiles=9))
    assert gates(serving("a", 0), coming, closed("c", 9), promised=2) == {}


def test_gate_opened_in_the_future_delays_no_other_gate() -> None:
    opened = (gate_condition(True, RECORD, since=format_timestamp(NOW + timedelta(minutes=5))),)
    lost = view(pod("b", conditions=opened))
    assert gates(serving("a", 0), lost, closed("c", 9), promised=2) == {"c": True}


def test_pods_about_to_be_removed_do_not_count_as_available() -> None:
    pods = [serving("a", 0), serving("b", 9)]
    assert judge_gates(pods, CLOSING, 1, Deadlines(NOW), pending_removals=1) == []


def test_closed_pod_opens_if_the_serving_one_may_be_removed() -> None:
    (gate,) = judge_gates([serving("a", 0), closed("b", 9)], CLOSING, 1, Deadlines(NOW), pending_removals=1)
    assert (gate.pod, gate.open) == ("b", True)


def cluster_scaled_down() -> Cluster:
    """Return a cluster scaled down from two pods to one. One pod recompiles, and the other sends no reports."""
    cluster = served(readiness={"onRecompiles": "CloseGate"})
    cluster.change(replicas=1)
    cluster.operate()
    assert cluster.kind("ReplicaSet")[0]["spec"]["replicas"] == 1
    hot, away = pod_names(cluster)
    cluster.report(hot, Phase.SERVING, prompt=FULL, recent_recompiles=99)
    del cluster.reports[cluster.objects["Pod", away]["metadata"]["uid"]]
    return cluster


def test_no_pod_closes_while_another_is_being_removed() -> None:
    assert not any(isinstance(each, SetGate) for each in cluster_scaled_down().operate().actions)


PODS = st.lists(st.tuples(st.booleans(), st.integers(0, 6)), max_size=6).map(
    lambda drawn: [(serving if opened else closed)(str(at), recent) for at, (opened, recent) in enumerate(drawn)]
)


@given(PODS, st.integers(0, 6))
def test_minimum_is_kept_and_a_second_decision_is_empty(pods: list[PodView], promised: int) -> None:
    written = judge_gates(pods, CLOSING, promised, Deadlines(NOW))
    after = pods_with_gate_conditions(pods, written, NOW)
    kept = max(1, promised)
    assert sum(each.is_ready for each in after) >= min(kept, sum(each.is_ready for each in pods))
    assert sum(each.is_gate_open for each in after) >= min(kept, len(pods))
    assert judge_gates(after, CLOSING, promised, Deadlines(NOW)) == []


def test_pod_closing_for_another_reason_does_not_count_as_serving() -> None:
    conditions = (gate_condition(True, RECORD), condition("Ready", True))
    ended = view(pod("a", conditions=conditions, state={"terminated": {"exitCode": 1}}))
    assert gates(ended, serving("b", 9)) == {"a": False}
