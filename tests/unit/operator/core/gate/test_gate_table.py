"""The definition of the gate as a table: what a user sees after the warm-up of a pod, in each mode and as a canary.

The prompt phase is complete. The decode phase of eight buckets ends in each of the ways in `ENDINGS`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from gaudi_operator.core.actions import Event
from gaudi_operator.core.gate.condition import gate_condition_status
from gaudi_runtime.contract.preparation import Preparation
from gaudi_runtime.contract.report import Phase, PhaseProgressReport
from gaudi_runtime.units import GIB
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.resources import CARD, resource
from tests.unit.operator.core.stories import BIGGER, canary_of, pod_names, revisions, status


class Ending(NamedTuple):
    """How capture ended in the decode phase, and what a user sees: the gate's reason or the failure, and a clause.

    `nouns` and `done` in the clause stand for the words of the mode.
    """

    counts: dict[str, int]
    opens: bool
    reason: str
    clause: str
    readiness: Mapping[str, Any] = MappingProxyType({})


FIVE = {"captured": 5, "left_out_for_memory": 3, "left_out_bytes": 3 * GIB}
ENDINGS = {
    "captured all": Ending({"captured": 8}, True, "WarmedUp", "8 of 8 decode {nouns} {done}"),
    "left out for memory": Ending(
        FIVE, True, "FewerGraphs", "5 of 8 decode {nouns} {done} (3 left out for memory, they need about 3 GiB)"
    ),
    "left out by a limit": Ending(
        {"captured": 6, "left_out_by_limit": 2},
        True,
        "FewerGraphs",
        "6 of 8 decode {nouns} {done} (2 left out by a limit in the spec)",
    ),
    "failed for another reason": Ending(
        {"captured": 5, "left_out_for_memory": 2},
        False,
        "WarmupIncomplete",
        "1 of 8 decode {nouns} could not be {done}",
    ),
    "none captured, with memory": Ending(
        {"captured": 0}, False, "WarmupIncomplete", "8 of 8 decode {nouns} could not be {done}"
    ),
    "none captured, all beyond limits": Ending(
        {"captured": 0, "left_out_by_limit": 8},
        False,
        "WarmupIncomplete",
        "limits in the spec leave out all 8 decode {nouns}",
    ),
    "none captured, without memory": Ending(
        {"captured": 0, "left_out_for_memory": 8}, True, "FewerGraphs", "0 of 8 decode {nouns} {done} (8 left out"
    ),
    "a bucket is cold": Ending(
        {"captured": 7, "warmed": 7, "left_out_by_limit": 1},
        False,
        "WarmupIncomplete",
        "7 of 8 decode buckets are warm",
    ),
    "threshold missed": Ending(
        FIVE,
        False,
        "CapturedBelowThreshold",
        "5 of 8 decode {nouns} (62 %) are {done} (minimum 80 %)",
        {"minCapturedDecodePercent": 80},
    ),
    "threshold reached": Ending(
        FIVE, True, "FewerGraphs", "5 of 8 decode {nouns} {done} (3 left out", {"minCapturedDecodePercent": 62}
    ),
    "incomplete, but served anyway": Ending(
        {"captured": 5},
        True,
        "OpenedBelowThreshold",
        "3 of 8 decode {nouns} could not be {done}",
        {"onShortfall": "ServeAndWarn"},
    ),
}
MODES = {
    "HpuGraphs": (Preparation.CAPTURE, {"nouns": "graphs", "done": "captured"}),
    "TorchCompile": (Preparation.EXECUTION, {"nouns": "buckets", "done": "executed"}),
}


class Seen(NamedTuple):
    """The facts that a user sees after the pod has reported. The percentage is that of decode buckets."""

    gate: dict[str, str]
    ready: dict[str, str]
    degraded: str
    events: list[Event]
    captured_percent: int


def warm_up(ending: Ending, mode: str, canary: bool) -> Seen:
    """Let the first pod of a resource, or the canary of an upgrade, end its warm-up."""
    engine = {"name": "vllm", "executionMode": mode}
    cluster = Cluster(resource(replicas=1, accelerator=CARD, engine=engine, readiness=dict(ending.readiness)))
    if canary:
        cluster.settle()
        (old,) = revisions(cluster)
        cluster.change(model=BIGGER)
        name = canary_of(cluster, old)
    else:
        cluster.operate()
        cluster.controllers()
        (name,) = pod_names(cluster)
    cluster.events.clear()
    full = PhaseProgressReport(planned=8, warmed=8, captured=8, preparation=MODES[mode][0])
    cluster.report(name, Phase.SERVING, prompt=full, decode=full.model_copy(update=ending.counts))
    cluster.operate()
    pod = cluster.objects["Pod", name]
    percent = next((row["capturedPercent"]["decode"] for row in status(cluster)["pods"] if row["name"] == name), -1)
    cluster.kubelet()
    cluster.operate()
    conditions = {each["type"]: each for each in status(cluster)["conditions"]}
    gates = [each for each in pod["status"]["conditions"] if each["type"] == "inference.gaudi.dev/warmed-up"]
    assert (gate_condition_status(pod) == "True") is bool(gates)
    return Seen(
        *(gates[0] if gates else {}, conditions["Ready"], conditions["Degraded"]["status"], cluster.events, percent)
    )


@pytest.mark.parametrize("canary", [False, True], ids=["first pod", "canary"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ENDINGS)
def test_user_sees_how_the_warm_up_ended(name: str, mode: str, canary: bool) -> None:
    ending = ENDINGS[name]
    seen = warm_up(ending, mode, canary)
    clause = ending.clause.format(**MODES[mode][1])
    assert bool(seen.gate) is ending.opens
    if ending.opens:
        assert seen.gate["reason"] == ending.reason
        assert clause in seen.gate["message"]
        assert seen.ready["reason"] == ("RollingOut" if canary else "Serving")
        assert seen.captured_percent == ending.counts["captured"] * 100 // 8
        assert (seen.degraded == "True") is (ending.reason == "OpenedBelowThreshold")
        fewer_events = [(each.type, clause in each.message) for each in seen.events if each.reason == "FewerGraphs"]
        assert fewer_events == ([("Normal", True)] if ending.reason == "FewerGraphs" else [])
    else:
        # Without an older revision, the pod itself is the problem. With one, the operator rolls back to it.
        assert seen.ready["status"] == "False"
        assert seen.ready["reason"] == ("RolledBack" if canary else ending.reason)
        assert clause in seen.ready["message"]
        failure = f"{ending.reason}: " if not canary else f"failed ({ending.reason}): "
        bad_events = [each for each in seen.events if each.reason == ("RevisionFailed" if canary else "Stalled")]
        assert [(failure in each.message, clause in each.message) for each in bad_events] == [(True, True)]
