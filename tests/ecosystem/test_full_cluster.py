"""Upgrades in a cluster without a free card: the effect on clients at 1, 2, 3 and 8 replicas on a node of eight cards.

The test is not in CI, because the replicas warm up one after the other.
"""

import re
import shlex
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from demo import install
from demo.install import ROOT, Installation
from demo.load import Answer, Traffic
from demo.resource import Resource, condition, is_ready, is_stalled

CARDS = yaml.safe_load((ROOT / "examples" / "upgrade" / "cards.yaml").read_text())
CHANGE = {"bucketing": {"prompt": {"query": {"step": 128}}}}
SECONDS = 600

pytestmark = pytest.mark.timeout(1800)


@dataclass
class ReadyReplicas:
    """The number of ready replicas of a resource over time. Times are in seconds."""

    ready: list[tuple[float, int]]

    def seconds_below(self, replicas: int) -> float:
        """Return the number of seconds in which fewer than `replicas` replicas were ready."""
        pairs = zip(self.ready, self.ready[1:], strict=False)
        return sum(until - since for (since, ready), (until, _) in pairs if ready < replicas)

    def until(self, resource: Resource, over: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Record states until a state matches `over`, and return this state."""
        for state in resource.states(SECONDS):
            self.ready.append((time.monotonic(), state.get("status", {}).get("readyReplicas", 0)))
            if over(state):
                return state
        raise AssertionError("a watch never ends by itself")


def applied(installed: Installation, namespace: str, name: str, replicas: int, cards: int, **rollout: Any) -> Resource:
    """Create a resource whose replicas use `cards` cards each. Return the resource when all replicas are ready."""
    rollout = {**CARDS["spec"]["rollout"], "surgeTimeoutSeconds": 30, **rollout}
    spec = {**CARDS["spec"], "replicas": replicas, "parallelism": {"tensor": cards}, "rollout": rollout}
    manifest = {**CARDS, "metadata": {"name": name}, "spec": spec}
    installed.kubectl("apply", "--namespace", namespace, "-f", "-", stdin=yaml.safe_dump(manifest))
    found = Resource(str(installed.kubeconfig), namespace, name)
    next(state for state in found.states(SECONDS) if is_ready(state))
    return found


COMPETITOR = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "competitor"},
    "spec": {
        "terminationGracePeriodSeconds": 0,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "competitor",
                "image": install.RUNTIME_IMAGE,
                "imagePullPolicy": "IfNotPresent",
                "command": ["sleep", "infinity"],
                "resources": {"limits": {"habana.ai/gaudi": 4}},
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            }
        ],
    },
}
"""A pod of another owner that waits for the cards of one replica."""


@pytest.fixture
def clear(installed: Installation, namespace: str) -> Iterator[None]:
    """Delete all resources at the end, so that the next test can use the cards."""
    yield
    installed.kubectl("delete", "gi", "--all", "--namespace", namespace)
    installed.kubectl("delete", "pod", "competitor", "--ignore-not-found", "--namespace", namespace)
    wait = ("--all", "--for=delete", "--timeout=120s", "--namespace", namespace)
    installed.kubectl("wait", "pod", *wait)


def traffic(installed: Installation, namespace: str, name: str) -> Traffic:
    """Send requests until the traffic is stopped. Each worker waits 0.2 s after an answer."""
    found = Traffic(installed.kubectl, namespace, install.RUNTIME_IMAGE)
    found.start(name, name, pause=0.2)
    return found


def report(replicas: int, seen: ReadyReplicas, answers: list[Answer], state: dict[str, Any]) -> None:
    """Print the results of one upgrade as a row of the table."""
    failed = sum(bool(each.error) for each in answers)
    took = seen.ready[-1][0] - seen.ready[0][0]
    print(  # noqa: T201
        f"{replicas} replicas: {took:.0f} s, {len(answers)} requests, {failed} failed, no replica ready for "
        f"{seen.seconds_below(1):.0f} s, below desired for {seen.seconds_below(replicas):.0f} s, two or more below for "
        f"{seen.seconds_below(replicas - 1):.0f} s, {condition(state, 'Ready')['reason']}"
    )


@pytest.mark.usefixtures("clear")
@pytest.mark.parametrize(
    ("replicas", "cards", "others", "rollout", "missing"),
    [(2, 4, 0, {}, 1), (3, 2, 2, {}, 1), (8, 1, 0, {}, 1), (8, 1, 0, {"maxUnavailable": "25%"}, 2)],
)
def test_upgrade_keeps_all_but_max_unavailable_replicas_ready(
    installed: Installation,
    namespace: str,
    replicas: int,
    cards: int,
    others: int,
    rollout: dict[str, Any],
    missing: int,
) -> None:
    if others:
        applied(installed, namespace, "others", 1, others)
    resource = applied(installed, namespace, "full", replicas, cards, **rollout)
    client, seen = traffic(installed, namespace, "full"), ReadyReplicas([])
    resource.patch(CHANGE)
    state = seen.until(resource, is_ready)
    answers = client.stop()
    report(replicas, seen, answers, state)
    assert [each.error for each in answers if each.error] == []
    assert min(ready for _, ready in seen.ready) == replicas - missing


@pytest.mark.usefixtures("clear")
def test_upgrade_continues_after_a_competing_pod_took_the_cards(installed: Installation, namespace: str) -> None:
    resource = applied(installed, namespace, "full", 2, 4)
    installed.kubectl("apply", "--namespace", namespace, "-f", "-", stdin=yaml.safe_dump(COMPETITOR))
    client, seen = traffic(installed, namespace, "full"), ReadyReplicas([])
    resource.patch(CHANGE)
    state = seen.until(resource, lambda state: is_stalled(state, "Unschedulable"))
    message = condition(state, "Stalled")["message"]
    print(state["status"]["readyReplicas"], message)  # noqa: T201
    assert "Insufficient habana.ai/gaudi" in message
    assert (state["status"]["readyReplicas"], condition(state, "Available")["status"]) == (1, "True")
    installed.kubectl("delete", "pod", "competitor", "--namespace", namespace)
    state = seen.until(resource, is_ready)
    answers = client.stop()
    report(2, seen, answers, state)
    assert [each.error for each in answers if each.error] == []
    assert min(ready for _, ready in seen.ready) == 1


@pytest.mark.usefixtures("clear")
def test_upgrade_is_blocked_if_max_unavailable_is_zero(installed: Installation, namespace: str) -> None:
    resource = applied(installed, namespace, "full", 2, 4, maxUnavailable=0)
    seen = ReadyReplicas([])
    resource.patch(CHANGE)
    state = seen.until(resource, lambda state: is_stalled(state, "UpgradeBlocked"))
    assert seen.seconds_below(2) == 0
    assert "because spec.rollout.maxUnavailable is 0." in condition(state, "Stalled")["message"]


@pytest.mark.usefixtures("clear")
def test_single_replica_is_replaced_only_after_the_documented_patch(installed: Installation, namespace: str) -> None:
    resource = applied(installed, namespace, "full", 1, 8)
    client, seen = traffic(installed, namespace, "full"), ReadyReplicas([])
    resource.patch(CHANGE)
    state = seen.until(resource, lambda state: is_stalled(state, "UpgradeBlocked"))
    assert seen.seconds_below(1) == 0
    message = condition(state, "Stalled")["message"]
    print(message)  # noqa: T201
    [command] = re.findall(r"`kubectl (patch .+)`", message)
    installed.kubectl(*shlex.split(command))
    state = seen.until(resource, is_ready)
    report(1, seen, client.stop(), state)
    assert seen.seconds_below(1) > 0
