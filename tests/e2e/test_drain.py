"""Pods that go finish what they have begun: a node that is drained, a scale-down, and a scale to zero."""

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from subprocess import PIPE, STDOUT, Popen
from typing import Any

from demo import install
from demo.install import Installed
from demo.load import Answer, Traffic
from demo.resource import Resource, condition, is_ready
from gaudi_operator.core.names import NAME_LABEL
from localcluster import tools
from tests.e2e.pods import Pods, gate_of

NAME = "streams"
SPEC = {
    "replicas": 2,
    "engine": {"name": "sim", "simulation": {"tokensPerSecond": "5"}},
    "pod": {"drainSeconds": 60},
}
TOKENS = 40
"""Eight seconds of answer, for some after eight of waiting: a pod is never idle, and streams outlive its notice."""
WORKERS = 8
"""Half of them keep their connection open."""
PRESTOP_SECONDS = 5
PATIENCE = 180


def test_drained_node_and_scaled_down_pods_break_no_answer_off(
    installed: Installed, namespace: str, apply: Callable[..., Resource], wait_ready: Callable[[str], None]
) -> None:
    resource, of = apply(NAME, **SPEC), Pods(installed, namespace, NAME)
    wait_ready(NAME)
    first, instances = of.names(), instances_of(of)
    traffic = Traffic(installed.kubectl, namespace, install.RUNTIME_IMAGE)
    traffic.start(NAME, NAME, workers=WORKERS, max_tokens=TOKENS)
    for pod in first:
        wait_busy(of, pod)
    evicted = drain_node(of, first)
    next(state for state in resource.states(PATIENCE) if is_ready(state))
    instances |= instances_of(of)

    states = states_from_now_on(resource)
    of.kubectl("scale", f"gi/{NAME}", "--replicas=1")
    next(state for state in states if "is terminating" in condition(state, "Ready")["message"])
    next(state for state in states if is_ready(state) and "terminating" not in condition(state, "Ready")["message"])
    (last,) = of.names()
    wait_busy(of, last)
    states = states_from_now_on(resource)
    zero = time.time()
    of.kubectl("scale", f"gi/{NAME}", "--replicas=0")
    ending = next(state for state in states if "terminating" in condition(state, "Ready")["message"])
    assert condition(ending, "Ready")["reason"] == "ScalingDown"
    answers = [answer for answer in traffic.stop() if answer.at < zero]
    next(state for state in states if condition(state, "Ready")["reason"] == "ScaledToZero")

    print(f"{len(answers)} answers of {len({answer.instance for answer in answers})} pods")  # noqa: T201
    failed = [(answer.at - zero, answer.seconds, answer) for answer in answers if answer.error]
    assert failed == []
    by_pod = {name: [each for each in answers if each.instance == instance] for instance, name in instances.items()}
    assert any(outlives(answer, zero + PRESTOP_SECONDS) for answer in by_pod[last]), (
        "answers go on behind a closed port"
    )
    for pod, moment in {**evicted, last: zero}.items():
        assert any(outlives(answer, moment) for answer in by_pod[pod]), f"{pod} had answers to finish"
        late = [answer for answer in by_pod[pod] if answer.at > moment + PRESTOP_SECONDS]
        assert len(late) <= WORKERS // 2, f"{pod} was asked on kept connections only, once on each"


def states_from_now_on(resource: Resource) -> Iterator[dict[str, Any]]:
    """Every state that comes after this moment, also one that is soon over."""
    states = resource.states(PATIENCE)
    next(states)
    return states


def drain_node(of: Pods, pods: set[str]) -> dict[str, float]:
    """`kubectl drain` for our pods: one goes, the other waits for its successor. When each of `pods` was evicted."""
    node = of.now()[0]["spec"]["nodeName"]
    selector = f"--pod-selector={NAME_LABEL}={of.name}"
    command = [str(tools().kubectl), "drain", node, selector, "--delete-emptydir-data", f"--timeout={PATIENCE}s"]
    environment = {**os.environ, "KUBECONFIG": str(of.installed.kubeconfig)}
    with Popen(command, env=environment, stdout=PIPE, stderr=STDOUT, text=True) as process:
        assert process.stdout
        try:
            held = next((line for line in process.stdout if "disruption budget" in line), "")
            staying = of.names() & pods
        finally:
            of.kubectl("uncordon", node)
        assert (len(staying), "would violate" in held) == (1, True), "one stays until the other's successor is warm"
        evicted = {pod["metadata"]["name"]: eviction_of(pod) for pod in all_of(of) if eviction_of(pod)}
        of.kubectl(
            "wait", f"pod/{staying.pop()}", "--for=jsonpath={.metadata.deletionTimestamp}", f"--timeout={PATIENCE}s"
        )
        evicted |= {pod["metadata"]["name"]: eviction_of(pod) for pod in all_of(of) if eviction_of(pod)}
        said = process.stdout.read()
        assert process.wait() == 0, said
    assert evicted.keys() == pods
    return evicted


def outlives(answer: Answer, moment: float) -> bool:
    """Whether an answer was on its way at `moment`."""
    return answer.at < moment < answer.at + answer.seconds


def all_of(of: Pods) -> list[dict[str, Any]]:
    """The pods of a resource, those that are going among them."""
    listed = json.loads(of.kubectl("get", "pods", "-l", f"{NAME_LABEL}={of.name}", "-o", "json"))
    return list(listed["items"])


def eviction_of(pod: dict[str, Any]) -> float:
    """When a pod was asked to go, in seconds since the epoch, rounded up; 0 while it was not."""
    metadata = pod["metadata"]
    if "deletionTimestamp" not in metadata:
        return 0.0
    gone_by = datetime.fromisoformat(metadata["deletionTimestamp"]).timestamp()  # in whole seconds, rounded down
    return gone_by - metadata["deletionGracePeriodSeconds"] + 1


def instances_of(of: Pods) -> dict[str, str]:
    """The pods by the instance that their gates were opened for."""
    found = ((re.search(r"instance ([0-9a-f]+)", gate_of(pod).get("message", "")), pod) for pod in of.now())
    return {match[1]: pod["metadata"]["name"] for match, pod in found if match}


def wait_busy(of: Pods, pod: str) -> None:
    """Return when `pod` answers a request."""
    deadline = time.monotonic() + PATIENCE
    path = f"/api/v1/namespaces/{of.namespace}/pods/{pod}:8001/proxy/metrics"
    while not re.search(r"^gaudi_requests_running [1-9]", of.kubectl("get", "--raw", path), re.MULTILINE):
        assert time.monotonic() < deadline, f"pod {pod} gets no request"
