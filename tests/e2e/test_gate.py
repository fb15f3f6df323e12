"""A pod receives traffic only while its current container is warm, even during failures."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from demo.install import OPERATOR_NAMESPACE, Installation
from demo.resource import Resource, condition, is_ready, is_stalled
from localcluster.sandbox.processes import wait_until
from tests.e2e.endpoints import EndpointRecorder
from tests.e2e.pods import Pods, condition_of, container_id, gate_of, kill
from tests.e2e.specs import QUICK, TWO_PROMPT_BUCKETS

Apply = Callable[..., Resource]
PATIENCE = 180
WARMING = ("Loading", "Profiling", "Allocating", "Compiling", "Sampler", "Defragmenter", "Capturing")


@pytest.fixture(scope="module")
def pods(installed: Installation, namespace: str) -> Callable[[str], Pods]:
    """The pods of a resource in the module's namespace."""
    return lambda name: Pods(installed, namespace, name)


@contextmanager
def no_operator(installed: Installation) -> Iterator[None]:
    """Run a block without operator pods. Afterwards, start two operator pods and wait for a leader."""
    deployment = ("--namespace", OPERATOR_NAMESPACE, "deployment/gaudi-operator")
    installed.kubectl("scale", *deployment, "--replicas=0")
    gone = ("--for=delete", "pod", "-l", "app.kubernetes.io/name=gaudi-operator", "--timeout=60s")
    installed.kubectl("wait", "--namespace", OPERATOR_NAMESPACE, *gone)
    try:
        yield
    finally:
        installed.kubectl("scale", *deployment, "--replicas=2")
        installed.kubectl("rollout", "status", *deployment, "--timeout=120s")


def gates(state: dict[str, Any]) -> list[bool]:
    """Return, for each pod in the status, whether its gate is open."""
    return [pod["gate"] for pod in state.get("status", {}).get("pods", [])]


def test_pod_of_a_killed_container_leaves_endpoints_until_warm(
    installed: Installation, apply: Apply, wait_ready: Callable[[str], None], pods: Callable[[str], Pods]
) -> None:
    resource, of = apply("killed-serving", **QUICK), pods("killed-serving")
    wait_ready("killed-serving")
    before = of.only()
    states = resource.states(PATIENCE)
    next(states)
    with EndpointRecorder(of) as endpoints:
        kill(installed, before)
        closed = next(state for state in states if gates(state) == [False])
        assert condition(closed, "Ready")["status"] == "False"
        next(state for state in states if is_ready(state))
        of.wait_endpoint(before["metadata"]["name"], ready=True)
    assert endpoints.left_out == {before["metadata"]["name"]}
    after = of.only()
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert container_id(before) not in gate_of(after)["message"]
    assert container_id(after) in gate_of(after)["message"]


def test_container_killed_during_warm_up_opens_no_gate_until_warm(
    installed: Installation, apply: Apply, pods: Callable[[str], Pods]
) -> None:
    slow = {**QUICK, "engine": {"settings": {"compileSeconds": "4"}}}
    resource, of = apply("killed-warming", **slow), pods("killed-warming")
    states = resource.states(PATIENCE)
    next(
        state
        for state in states
        if [pod["phase"] for pod in state.get("status", {}).get("pods", [])][:1]
        and state["status"]["pods"][0]["phase"] in WARMING
    )
    kill(installed, of.only())
    next(state for state in states if is_ready(state))
    pod = of.only()
    assert of.restarts() == {pod["metadata"]["uid"]: 1}
    of.wait_event(f"Pod {pod['metadata']['name']}: ")
    closed = of.kubectl(
        "get", "events", "--field-selector=reason=GateClosed,involvedObject.name=killed-warming", "-oname"
    )
    assert not closed, "a gate was opened for the killed container"
    assert container_id(pod) in gate_of(pod)["message"]


def test_gates_keep_their_state_without_an_operator(
    installed: Installation, apply: Apply, wait_ready: Callable[[str], None], pods: Callable[[str], Pods]
) -> None:
    apply("steady", **{**QUICK, "replicas": 2})
    wait_ready("steady")
    of = pods("steady")
    old = of.names()
    kept, deleted = sorted(old)
    with no_operator(installed):
        of.kubectl("delete", "pod", deleted)
        wait_until(lambda: len(of.names() - old) == 1, "the controllers to create another pod", PATIENCE)
        (new,) = of.names() - old
        of.kubectl("wait", "pod", new, "--for=condition=ContainersReady", f"--timeout={PATIENCE}s")
        seen = {pod["metadata"]["name"]: pod for pod in of.now()}
        assert condition_of(seen[new], "Ready")["reason"] == "ReadinessGatesNotReady"
        assert condition_of(seen[kept], "Ready")["status"] == "True"
        of.wait_endpoint(new, ready=False)
        of.wait_endpoint(kept, ready=True)
    of.wait_endpoint(new, ready=True)
    assert of.restarts().keys() == {seen[name]["metadata"]["uid"] for name in (kept, new)}
    wait_ready("steady")


def test_children_are_deleted_with_their_resource_without_operator(
    installed: Installation, apply: Apply, wait_ready: Callable[[str], None], pods: Callable[[str], Pods]
) -> None:
    apply("orphan", **QUICK)
    wait_ready("orphan")
    of = pods("orphan")
    with no_operator(installed):
        of.kubectl("delete", "gi", "orphan", "--wait=true", "--timeout=60s")
        children = "replicasets,services,configmaps,serviceaccounts,poddisruptionbudgets,networkpolicies,pods"
        of.kubectl("wait", "--for=delete", children, "-l", "inference.gaudi.dev/name=orphan", "--timeout=120s")


def test_revision_with_too_few_graphs_rolls_back_until_threshold_drops(
    apply: Apply, wait_ready: Callable[[str], None], pods: Callable[[str], Pods]
) -> None:
    all_graphs = {"minCapturedPromptPercent": 100}
    resource, of = apply("short", replicas=1, bucketing=TWO_PROMPT_BUCKETS, readiness=all_graphs), pods("short")
    wait_ready("short")
    old = of.only()["metadata"]["name"]
    resource.patch({"engine": {"settings": {"oomAtBucket": "prompt:2"}}})
    stalled = next(state for state in resource.states(PATIENCE) if is_stalled(state, "RolledBack"))
    assert "failed (CapturedBelowThreshold)" in condition(stalled, "Stalled")["message"]
    assert "1 of 2 prompt buckets (50 %) are executed (minimum 100 %)" in condition(stalled, "Stalled")["message"]
    assert condition(stalled, "Available")["status"] == "True"
    of.wait_endpoint(old, ready=True)
    of.wait_gone(of.names() - {old})
    resource.patch({"readiness": {"minCapturedPromptPercent": 0}})
    of.kubectl("annotate", "gi", "short", "inference.gaudi.dev/restarted-at=once-more")
    next(state for state in resource.states(PATIENCE) if is_ready(state))
    of.wait_gone({old})
