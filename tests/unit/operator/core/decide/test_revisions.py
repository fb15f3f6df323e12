"""Changes that create a revision, reuse a former one or restart nothing, and defaults of a newer operator."""

import json
from dataclasses import replace
from typing import Any

import pytest

from gaudi_operator.core.names import RESTARTED_AT_ANNOTATION
from gaudi_operator.core.rendering.runtime_config import runtime_config_execution_mode
from gaudi_operator.core.rollout.revision import (
    Revision,
    are_same_revision_inputs,
    revision_name,
    serialize_revision_inputs,
)
from gaudi_operator.core.rollout.revision_choice import choose_desired_revision, use_mode_of_chosen_revision
from gaudi_runtime.contract.config import ExecutionMode
from tests.support.builders import Object
from tests.unit.operator.core.cluster import upgraded
from tests.unit.operator.core.resources import CARD, DEFAULTS, inference, inputs
from tests.unit.operator.core.stories import condition, pod_names, revisions, served, status


def test_scaling_creates_no_revision() -> None:
    cluster = served()
    before = revisions(cluster)
    cluster.change(replicas=4)
    cluster.settle()
    assert revisions(cluster) == before
    assert status(cluster)["readyReplicas"] == 4


def test_revision_change_keeps_the_minimum_of_available_pods() -> None:
    cluster = served()
    before = revisions(cluster)
    cluster.change(model={"maxModelLen": 512})
    for _ in range(20):
        cluster.operate()
        cluster.controllers()
        for name in pod_names(cluster):
            cluster.warm(name)
        cluster.kubelet()
        assert status(cluster)["readyReplicas"] >= 2
        assert status(cluster)["replicas"] <= 3
    cluster.settle()
    assert not revisions(cluster) & before
    assert condition(cluster, "Ready") == ("True", "Serving")


def test_reverted_spec_reuses_the_revision() -> None:
    cluster = served()
    first = revisions(cluster)
    cluster.change(model={"maxModelLen": 512})
    cluster.settle()
    cluster.change(model={"maxModelLen": 256})
    cluster.settle()
    assert revisions(cluster) == first
    assert sorted(each["revision"] for each in cluster.kind("ControllerRevision")) == [2, 3]


def test_requested_restart_replaces_all_pods() -> None:
    cluster = served()
    before = set(pod_names(cluster))
    cluster.resource["metadata"]["annotations"] = {RESTARTED_AT_ANNOTATION: "2026-08-01T12:00:00Z"}
    cluster.settle()
    assert not before & set(pod_names(cluster))


def test_newer_operator_restarts_no_pod() -> None:
    cluster = served()
    before = pod_names(cluster)
    cluster.defaults = upgraded(cluster.defaults)
    cluster.settle()
    assert pod_names(cluster) == before


def test_newer_crd_restarts_no_pod() -> None:
    cluster = served()
    before = pod_names(cluster)
    cluster.change(engine={"fromTheFuture": 1}, bucketing={"fromTheFuture": 1})
    cluster.settle()
    assert pod_names(cluster) == before


def test_new_pods_of_a_stored_revision_keep_its_image() -> None:
    cluster = served()
    cluster.defaults = upgraded(cluster.defaults)
    cluster.change(replicas=3)
    cluster.settle()
    assert {pod["spec"]["containers"][0]["image"] for pod in cluster.kind("Pod")} == {"runtime:1"}


def test_new_revision_uses_the_newer_image() -> None:
    cluster = served()
    cluster.defaults = upgraded(cluster.defaults)
    cluster.change(model={"maxModelLen": 512})
    cluster.settle()
    assert {pod["spec"]["containers"][0]["image"] for pod in cluster.kind("Pod")} == {"runtime:2"}


def test_new_revision_uses_the_installations_current_collector() -> None:
    cluster = served()
    cluster.defaults = upgraded(cluster.defaults)
    cluster.change(replicas=3)
    cluster.settle()
    assert {traces_endpoint(pod) for pod in cluster.kind("Pod")} == {None}
    cluster.change(model={"maxModelLen": 512})
    cluster.settle()
    assert {traces_endpoint(pod) for pod in cluster.kind("Pod")} == {"http://collector:4317"}


def traces_endpoint(pod: Object) -> object:
    variables = {each["name"]: each.get("value") for each in pod["spec"]["containers"][0]["env"]}
    return variables.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def test_threshold_change_restarts_no_pod() -> None:
    cluster = served()
    before = pod_names(cluster)
    cluster.change(readiness={"minCapturedPromptPercent": 90})
    cluster.settle()
    assert pod_names(cluster) == before


def revision_with_default_mode(mode: str = "hpuGraphs") -> Revision:
    """Return a revision of an operator with another default mode. Only the rendered configuration has the mode."""
    made = choose_desired_revision(inference(accelerator=CARD), (), DEFAULTS)
    config = json.loads(made.config)
    config["engine"]["executionMode"] = mode
    return replace(made, config=json.dumps(config))


def test_other_default_mode_creates_no_revision() -> None:
    kept = revision_with_default_mode()
    assert choose_desired_revision(inference(accelerator=CARD), (kept,), DEFAULTS) is kept


def test_explicit_current_mode_creates_no_revision() -> None:
    kept = revision_with_default_mode()
    named = inference(accelerator=CARD, engine={"executionMode": "HpuGraphs"})
    assert choose_desired_revision(named, (kept,), DEFAULTS) is kept
    other = inference(accelerator=CARD, engine={"executionMode": "HpuGraphs", "maxNumSeqs": 2})
    assert choose_desired_revision(other, (kept,), DEFAULTS) is not kept


@pytest.mark.parametrize(
    "kept", [revision_with_default_mode("ofTheFuture"), replace(revision_with_default_mode(), config="no JSON")]
)
def test_explicit_other_mode_creates_a_revision(kept: Revision) -> None:
    named = inference(accelerator=CARD, engine={"executionMode": "HpuGraphs"})
    assert choose_desired_revision(named, (kept,), DEFAULTS) is not kept


def test_next_revision_uses_the_current_default() -> None:
    changed = inference(accelerator=CARD, engine={"maxNumSeqs": 2})
    found = choose_desired_revision(
        use_mode_of_chosen_revision(changed, (revision_with_default_mode(),)), (revision_with_default_mode(),), DEFAULTS
    )
    assert json.loads(found.config)["engine"]["executionMode"] == "torchCompile"


def test_running_revision_keeps_its_mode() -> None:
    judged = use_mode_of_chosen_revision(inference(accelerator=CARD), (revision_with_default_mode(),))
    assert runtime_config_execution_mode(judged) is ExecutionMode.HPU_GRAPHS
    assert (
        runtime_config_execution_mode(use_mode_of_chosen_revision(inference(accelerator=CARD), ()))
        is ExecutionMode.TORCH_COMPILE
    )


@pytest.mark.parametrize(
    "change",
    [
        {"model": {"maxModelLen": 512}},
        {"model": {"servedNames": ["a"]}},
        {"accelerator": {"deviceMemory": "1Gi"}},
        {"parallelism": {"tensor": 2}},
        {"engine": {"maxNumSeqs": 8}},
        {"server": {"image": "runtime:2"}},
        {"engine": {"env": [{"name": "A", "value": "1"}]}},
        {"engine": {"settings": {"A": "1"}}},
        {"bucketing": {"strategy": "Linear"}},
        {"bucketing": {"strategy": "Linear", "prompt": {"query": {"max": 64}}}},
        {"warmup": {"graphMemoryPercent": 20}},
        {"recipeCache": {}},
        {"pod": {"labels": {"team": "a"}}},
        {"pod": {"tolerations": [{"key": "gaudi"}]}},
        {"pod": {"drainSeconds": 60}},
        {"pod": {"affinity": {"podAffinity": {}}}},
        {"pod": {"volumes": [{"name": "a", "emptyDir": {}}]}},
        {"pod": {"sidecars": [{"name": "log", "image": "log:1"}]}},
        {"pod": {"runAsUser": 2000}},
        {"tracing": {"samplingPercent": 10}},
        {"warmup": {"stallTimeoutSeconds": 60}},
        {"annotations": {RESTARTED_AT_ANNOTATION: "2026-08-01"}},
    ],
    ids=str,
)
def test_change_of_the_pod_creates_a_revision(change: dict[str, Any]) -> None:
    assert not are_same_revision_inputs(serialize_revision_inputs(inputs()), inputs(**change))
    assert revision_name(inputs()) != revision_name(inputs(**change))


@pytest.mark.parametrize(
    "change",
    [
        {"replicas": 5},
        {"rollout": {"maxSurge": 2, "paused": True}},
        {"service": {"port": 8080}},
        {"readiness": {"minCapturedPromptPercent": 50, "onShortfall": "ServeAndWarn"}},
        {"autoscaling": {"maxReplicas": 4}},
        {"route": {"parentRefs": [{"name": "gate"}]}},
        {"networkAccess": {"from": "Unmanaged"}},
        {"annotations": {"example.com/s": "annotation"}},
    ],
    ids=str,
)
def test_change_outside_the_pod_creates_no_revision(change: dict[str, Any]) -> None:
    assert are_same_revision_inputs(serialize_revision_inputs(inputs()), inputs(**change))
    assert revision_name(inputs()) == revision_name(inputs(**change))


def test_new_field_at_its_default_creates_no_revision() -> None:
    stored = serialize_revision_inputs(inputs())
    del stored["engine"]["prefixCaching"], stored["warmup"], stored["pod"]["drainSeconds"]
    assert are_same_revision_inputs(stored, inputs())


def test_new_field_with_another_value_creates_a_revision() -> None:
    stored = serialize_revision_inputs(inputs())
    del stored["engine"]["prefixCaching"]
    assert not are_same_revision_inputs(stored, inputs(engine={"prefixCaching": True}))


def test_removed_value_creates_a_revision() -> None:
    assert not are_same_revision_inputs(
        serialize_revision_inputs(inputs(accelerator={**CARD, "hugepages": "1Gi"})), inputs(accelerator=CARD)
    )


def test_additional_stored_label_creates_a_revision() -> None:
    assert not are_same_revision_inputs(serialize_revision_inputs(inputs(pod={"labels": {"team": "a"}})), inputs())


def test_old_revision_is_replaced_after_its_controller_revision_was_deleted() -> None:
    cluster = served()
    (old,) = cluster.kind("ControllerRevision")
    cluster.change(model={"maxModelLen": 512})
    del cluster.objects["ControllerRevision", old["metadata"]["name"]]
    cluster.settle()
    assert condition(cluster, "Ready") == ("True", "Serving")
    assert len(cluster.kind("ReplicaSet")) == 1
