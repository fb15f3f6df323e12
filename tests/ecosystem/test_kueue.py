"""Models in a queue of the real Kueue: admission within the quota, an upgrade with a full quota, and preemption."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from demo import install
from demo.install import ROOT, Installation
from demo.load import Traffic
from demo.resource import Resource, condition, is_ready
from tests.ecosystem import kueue

CARDS = yaml.safe_load((ROOT / "examples" / "upgrade" / "cards.yaml").read_text())
SECONDS = 300
GATE = "kueue.x-k8s.io/admission"

pytestmark = pytest.mark.timeout(1800)


def queued(installed: Installation, namespace: str, name: str, replicas: int, **labels: str) -> Resource:
    """Create a resource in the queue. Each replica uses four of the eight cards."""
    pod = {**CARDS["spec"].get("pod", {}), "labels": {kueue.QUEUE_LABEL: "models", **labels}}
    rollout = {**CARDS["spec"]["rollout"], "surgeTimeoutSeconds": 30}
    manifest = {
        **CARDS,
        "metadata": {"name": name},
        "spec": {**CARDS["spec"], "replicas": replicas, "pod": pod, "rollout": rollout},
    }
    installed.kubectl("apply", "--namespace", namespace, "-f", "-", stdin=yaml.safe_dump(manifest))
    return Resource(str(installed.kubeconfig), namespace, name)


def ready(resource: Resource) -> dict[str, Any]:
    return next(state for state in resource.states(SECONDS) if is_ready(state))


def held(resource: Resource) -> dict[str, Any]:
    """Wait until a pod waits for quota, and return this state."""
    return next(state for state in resource.states(SECONDS) if condition(state, "Ready")["reason"] == "SchedulingGated")


@pytest.fixture(scope="module")
def chat(installed: Installation, namespace: str) -> Iterator[Resource]:
    """A resource with two replicas that use the whole quota."""
    kueue.install(installed)
    kueue.local_queue(installed, namespace)
    found = queued(installed, namespace, "chat", 2)
    ready(found)
    yield found
    installed.kubectl("delete", "gi", "--all", "--namespace", namespace)


def test_replica_beyond_the_quota_is_held_and_not_stalled(chat: Resource) -> None:
    chat.patch({"replicas": 3})
    state = held(chat)
    assert GATE in condition(state, "Ready")["message"]
    assert condition(state, "Stalled")["status"] == "False"
    assert [each["phase"] for each in state["status"]["pods"] if not each["ready"]] == ["SchedulingGated"]
    chat.patch({"replicas": 2})
    ready(chat)


def test_no_request_fails_during_upgrade_in_full_quota(installed: Installation, namespace: str, chat: Resource) -> None:
    client = Traffic(installed.kubectl, namespace, install.RUNTIME_IMAGE)
    client.start("chat", "chat", pause=0.2)
    before = ready(chat)["status"]["revision"]["current"]
    chat.patch({"bucketing": {"prompt": {"query": {"step": 128}}}})
    states = []
    for state in chat.states(SECONDS):
        states.append(state)
        if is_ready(state):
            break
    answers = client.stop()
    print(f"{len(answers)} requests")  # noqa: T201
    assert [each.error for each in answers if each.error] == []
    assert states[-1]["status"]["revision"]["current"] != before
    assert min(each["status"].get("readyReplicas", 0) for each in states) == 1


def test_preempted_replica_ends_gracefully_and_returns(installed: Installation, namespace: str, chat: Resource) -> None:
    client = Traffic(installed.kubectl, namespace, install.RUNTIME_IMAGE)
    client.start("chat", "chat", pause=0.2)
    urgent = queued(installed, namespace, "urgent", 1, **{kueue.PRIORITY_LABEL: "urgent"})
    ready(urgent)
    state = held(chat)
    assert state["status"]["readyReplicas"] == 1
    assert condition(state, "Stalled")["status"] == "False"
    installed.kubectl("delete", "gi/urgent", "--namespace", namespace)
    assert ready(chat)["status"]["readyReplicas"] == 2
    answers = client.stop()
    print(f"{len(answers)} requests")  # noqa: T201
    assert [each.error for each in answers if each.error] == []
