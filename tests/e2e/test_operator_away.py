"""One model under load: an upgrade, a scale to zero while a rollout is paused, and node drains without the operator."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from demo import install
from demo.install import Installation
from demo.load import Traffic
from demo.resource import Resource, is_ready
from gaudi_operator.core.names import REVISION_LABEL
from localcluster.errors import LocalClusterError
from localcluster.sandbox.processes import wait_until
from tests.e2e.gates import GateRecorder
from tests.e2e.pods import Pods, condition_of
from tests.e2e.specs import ONE_BUCKET, QUICK, TWO_PROMPT_BUCKETS
from tests.e2e.test_gate import no_operator

NAME = "away"
SECONDS = 180
GAUDI = str(Path(sys.executable).parent / "kubectl-gaudi")


def test_serving_revision_survives_zero_and_drains_without_operator(
    installed: Installation, namespace: str, apply: Callable[..., Resource], wait_ready: Callable[[str], None]
) -> None:
    resource, pods = apply(NAME, **{**QUICK, "replicas": 2}), Pods(installed, namespace, NAME)
    wait_ready(NAME)
    traffic = Traffic(installed.kubectl, namespace, install.RUNTIME_IMAGE)
    with GateRecorder(str(installed.kubeconfig), namespace) as gates:
        traffic.start(NAME, NAME, pause=0.05)
        resource.patch({"bucketing": TWO_PROMPT_BUCKETS})
        next(state for state in resource.states(SECONDS) if is_ready(state))
        (stable,) = revisions_of(pods)

        resource.patch({"rollout": {"paused": True}, "bucketing": ONE_BUCKET})
        names, at_zero = pods.names(), time.time()
        pods.kubectl("scale", f"gi/{NAME}", "--replicas=0")
        pods.wait_gone(names)
        pods.kubectl("scale", f"gi/{NAME}", "--replicas=2")
        wait_until(lambda: len(ready_names(pods)) == 2, "two ready pods", SECONDS)
        serving_again = time.time()
        assert revisions_of(pods) == {stable}

        first, second = sorted(pods.names())
        with no_operator(installed):
            evict(pods, first)
            wait_until(lambda: len(pods.names()) == 2, "the successor of the first pod", SECONDS)
            (successor,) = pods.names() - {first, second}
            open_gate_when_warm(pods, successor)
            wait_until(lambda: evict(pods, second), "the second eviction to be allowed", SECONDS)
            wait_until(lambda: len(pods.names()) == 2, "the successor of the second pod", SECONDS)
            open_gate_when_warm(pods, *(pods.names() - {successor}))
        answers = traffic.stop()

    failed = [answer for answer in answers if answer.error]
    print(  # noqa: T201
        f"{len(answers)} requests, {len(failed)} failed at zero, {serving_again - at_zero:.1f} s from the scale to "
        f"zero until two pods were ready again"
    )
    assert [answer for answer in failed if not at_zero <= answer.at <= serving_again] == []
    assert answers[-1].at > serving_again
    served = [answer for answer in answers if not answer.error]
    assert [answer for answer in served if not gates.open_at(answer.instance, answer.at + answer.seconds)] == []


def revisions_of(pods: Pods) -> set[str]:
    """Return the revisions of the pods that are not terminating."""
    return {pod["metadata"]["labels"][REVISION_LABEL] for pod in pods.now()}


def ready_names(pods: Pods) -> set[str]:
    """Return the names of the pods that the kubelet reports as ready."""
    return {pod["metadata"]["name"] for pod in pods.now() if condition_of(pod, "Ready")["status"] == "True"}


def evict(pods: Pods, pod: str) -> bool:
    """Evict a pod as a node drain does. Return False if the PodDisruptionBudget refuses the eviction."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    path = f"/api/v1/namespaces/{pods.namespace}/pods/{pod}/eviction"
    try:
        pods.installed.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))
    except LocalClusterError as error:
        if "disruption budget" not in str(error):
            raise
        return False
    return True


def open_gate_when_warm(pods: Pods, pod: str) -> None:
    """Run `kubectl gaudi gate open` until it no longer refuses, and wait until the pod is ready."""
    command = [GAUDI, "gate", "open", pod, f"--namespace={pods.namespace}"]
    environment = {**os.environ, "KUBECONFIG": str(pods.installed.kubeconfig)}
    refusals = []

    def opens() -> bool:
        process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        refusals.extend([process.stderr] if process.returncode else [])
        return process.returncode == 0

    assert pod not in ready_names(pods), "without the operator, no gate opens by itself"
    wait_until(opens, f"the gate of pod {pod}", SECONDS)
    assert not [refusal for refusal in refusals if not refusal.startswith("error: ")], refusals
    pods.kubectl("wait", f"pod/{pod}", "--for=condition=Ready", f"--timeout={SECONDS}s")


pytestmark = pytest.mark.timeout(600)
