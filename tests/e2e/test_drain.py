"""Graceful termination. Pods finish their requests during a node drain, a scale-down and a scale to zero."""

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from subprocess import PIPE, STDOUT, Popen
from typing import Any

from demo import install
from demo.install import Installation
from demo.load import Answer, Traffic
from demo.resource import Resource, condition, is_ready
from gaudi_operator.core.names import NAME_LABEL
from localcluster import tools
from tests.e2e.pods import Pods, gate_of

NAME = "streams"
SPEC = {
    "replicas": 2,
    "engine": {"settings": {"tokensPerSecond": "5"}},
    "pod": {"drainSeconds": 60},
}
TOKENS = 40
"""Answers take eight seconds, some after a wait in the queue, so streams outlast the eviction of their pod."""
WORKERS = 12
"""The number of clients. Half of them keep their connection open. With fewer clients, a pod may be idle by chance."""
PRESTOP_SECONDS = 5
PATIENCE = 180


def test_drain_and_scale_down_interrupt_no_request(
    installed: Installation, namespace: str, apply: Callable[..., Resource], wait_ready: Callable[[str], None]
) -> None:
    resource, of = apply(NAME, **SPEC), Pods(installed, namespace, NAME)
    wait_ready(NAME)
    first, instances = of.names(), pods_by_instance(of)
    traffic = Traffic(installed.kubectl, namespace, install.RUNTIME_IMAGE)
    traffic.start(NAME, NAME, workers=WORKERS, max_tokens=TOKENS)
    for pod in first:
        wait_busy(of, pod)
    evicted = drain_node(of, first)
    next(state for state in resource.states(PATIENCE) if is_ready(state))
    instances |= pods_by_instance(of)

    states = watch_states(resource)
    of.kubectl("scale", f"gi/{NAME}", "--replicas=1")
    next(state for state in states if "is terminating" in condition(state, "Ready")["message"])
    next(state for state in states if is_ready(state) and "terminating" not in condition(state, "Ready")["message"])
    (last,) = of.names()
    wait_busy(of, last)
    states = watch_states(resource)
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
    assert any(is_in_progress_at(answer, zero + PRESTOP_SECONDS) for answer in by_pod[last]), (
        "answers go on behind a closed port"
    )
    for pod, moment in {**evicted, last: zero}.items():
        assert any(is_in_progress_at(answer, moment) for answer in by_pod[pod]), f"{pod} had no answer to finish"
        late = [answer for answer in by_pod[pod] if answer.at > moment + PRESTOP_SECONDS]
        assert len(late) <= WORKERS // 2, f"{pod} got later requests than one on each kept connection"


def watch_states(resource: Resource) -> Iterator[dict[str, Any]]:
    """Yield every state from now on, including states that change immediately."""
    states = resource.states(PATIENCE)
    next(states)
    return states


def drain_node(of: Pods, pods: set[str]) -> dict[str, float]:
    """Run `kubectl drain`. One pod is evicted, and the other pod waits until a successor of the first pod is ready.

    Return the eviction time of each pod.
    """
    node = of.now()[0]["spec"]["nodeName"]
    selector = f"--pod-selector={NAME_LABEL}={of.name}"
    command = [str(tools().kubectl), "drain", node, selector, "--delete-emptydir-data", f"--timeout={PATIENCE}s"]
    environment = {**os.environ, "KUBECONFIG": str(of.installed.kubeconfig)}
    with Popen(command, env=environment, stdout=PIPE, stderr=STDOUT, text=True) as process:
        assert process.stdout
        try:
            held = next((line for line in process.stdout if "disruption budget" in line), "")
            remaining = of.names() & pods
        finally:
            of.kubectl("uncordon", node)
        assert (len(remaining), "would violate" in held) == (1, True), (
            "the second pod must wait for the other's successor"
        )
        evicted = {pod["metadata"]["name"]: eviction_time(pod) for pod in all_pods(of) if eviction_time(pod)}
        of.kubectl(
            "wait", f"pod/{remaining.pop()}", "--for=jsonpath={.metadata.deletionTimestamp}", f"--timeout={PATIENCE}s"
        )
        evicted |= {pod["metadata"]["name"]: eviction_time(pod) for pod in all_pods(of) if eviction_time(pod)}
        output = process.stdout.read()
        assert process.wait() == 0, output
    assert evicted.keys() == pods
    return evicted


def is_in_progress_at(answer: Answer, moment: float) -> bool:
    """Return whether the answer was in progress at `moment`."""
    return answer.at < moment < answer.at + answer.seconds


def all_pods(of: Pods) -> list[dict[str, Any]]:
    """Return the pods of a resource, including terminating pods."""
    listed = json.loads(of.kubectl("get", "pods", "-l", f"{NAME_LABEL}={of.name}", "-o", "json"))
    return list(listed["items"])


def eviction_time(pod: dict[str, Any]) -> float:
    """Return the deletion time of a pod in seconds since the epoch, rounded up, or 0 if the pod was not deleted."""
    metadata = pod["metadata"]
    if "deletionTimestamp" not in metadata:
        return 0.0
    gone_by = datetime.fromisoformat(metadata["deletionTimestamp"]).timestamp()  # whole seconds, rounded down
    return gone_by - metadata["deletionGracePeriodSeconds"] + 1


def pods_by_instance(of: Pods) -> dict[str, str]:
    """Return the pod names by container instance. The message of a pod's gate names the instance."""
    found = ((re.search(r"instance ([0-9a-f]+)", gate_of(pod).get("message", "")), pod) for pod in of.now())
    return {match[1]: pod["metadata"]["name"] for match, pod in found if match}


def wait_busy(of: Pods, pod: str) -> None:
    """Wait until `pod` is processing a request."""
    deadline = time.monotonic() + PATIENCE
    path = f"/api/v1/namespaces/{of.namespace}/pods/{pod}:8001/proxy/metrics"
    while not re.search(r"^gaudi_requests_running [1-9]", of.kubectl("get", "--raw", path), re.MULTILINE):
        assert time.monotonic() < deadline, f"pod {pod} gets no request"
