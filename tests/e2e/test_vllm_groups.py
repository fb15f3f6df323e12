"""Engine vllm over the two pods of a group. vLLM's multi-node launcher connects the ranks, one in each pod."""

from typing import Any

import openai
import pytest
import yaml

from demo.install import ROOT, Installation
from demo.resource import Resource, is_ready
from localcluster import leader_worker_sets
from tests.e2e.forwarding import port_forward
from tests.e2e.groups import gates, leader_and_worker, report_of
from tests.e2e.pods import Pods, condition_of, kill
from tests.e2e.specs import ONE_BUCKET

NAME = "tiny-vllm-group"
SECONDS = 600


@pytest.fixture(scope="module")
def pods(installed: Installation, namespace: str) -> Pods:
    """The leader and worker pods of the only resource."""
    return Pods(installed, namespace, NAME)


@pytest.fixture(scope="module")
def served(installed: Installation, namespace: str) -> Resource:
    """The example for one pod, changed to a group of two pods. The resource is Ready.

    The engine runs in eager mode, because tests/vllm covers compilation.
    """
    leader_worker_sets.install(installed.cluster)
    manifest = yaml.safe_load((ROOT / "examples" / "tiny-vllm-cpu.yaml").read_text())
    manifest["metadata"]["name"] = NAME
    del manifest["spec"]["recipeCache"]
    manifest["spec"]["bucketing"] = ONE_BUCKET
    manifest["spec"]["parallelism"] = {"tensor": 2, "nodes": 2}
    manifest["spec"]["engine"]["executionMode"] = "Eager"
    # Request little CPU. Both pods and the control plane run on one node with two cores.
    manifest["spec"]["pod"]["resources"] = {"requests": {"cpu": "250m"}, "limits": {"memory": "6Gi"}}
    installed.kubectl("apply", "--namespace", namespace, "-f", "-", stdin=yaml.safe_dump(manifest))
    resource = Resource(str(installed.kubeconfig), namespace, NAME)
    next(state for state in resource.states(SECONDS) if is_ready(state))
    return resource


def test_group_of_two_ranks_completes_a_chat_through_its_service(
    installed: Installation, namespace: str, served: Resource, pods: Pods
) -> None:
    leader, worker = leader_and_worker(pods)
    assert [condition_of(each, "Ready")["status"] for each in (leader, worker)] == ["True", "True"]
    report = report_of(pods, leader)
    assert (report.prompt.warmed, report.decode.warmed) == (report.prompt.planned, report.decode.planned)
    assert not report.simulated
    question: Any = {"model": "tiny", "messages": [{"role": "user", "content": "What is a group?"}], "max_tokens": 12}
    with (
        port_forward(installed, namespace, f"svc/{NAME}", 80) as port,
        openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0) as client,
    ):
        usage = client.chat.completions.create(**question).usage
    assert usage.completion_tokens > 0


def test_lost_worker_closes_the_gate(installed: Installation, served: Resource, pods: Pods) -> None:
    leader, worker = leader_and_worker(pods)
    states = served.states(SECONDS)
    next(states)
    kill(installed, worker)
    next(state for state in states if gates(state) == [False])
    pods.wait_endpoint(leader["metadata"]["name"], ready=False)
