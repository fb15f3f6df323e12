"""The chart with real Helm: install, upgrade and uninstall do not change the model pods."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from demo import install
from demo.install import OPERATOR_NAMESPACE, RELEASE, Installation
from demo.resource import Resource, condition, is_ready
from localcluster.sandbox.processes import wait_until
from tests.e2e.pods import Pods, kill, not_terminating
from tests.e2e.specs import QUICK

NAME = "steady"
PATIENCE = 180
OTHER_IMAGE = "localhost/gaudi-operator:other"
OPERATOR_PODS = ("--namespace", OPERATOR_NAMESPACE, "-l", "app.kubernetes.io/name=gaudi-operator")


@pytest.fixture(scope="module")
def resource(apply: Callable[..., Resource], wait_ready: Callable[[str], None]) -> Resource:
    """A Ready resource."""
    resource = apply(NAME, **QUICK)
    wait_ready(NAME)
    return resource


@pytest.fixture(scope="module")
def pods(installed: Installation, namespace: str, resource: Resource) -> Pods:
    """The pods of the resource."""
    return Pods(installed, namespace, NAME)


@pytest.fixture
def as_installed(installed: Installation) -> Iterator[None]:
    """Restore the chart values of the other tests at the end of the test."""
    yield
    install.install_chart(installed)


def operators(installed: Installation) -> dict[str, dict[str, Any]]:
    """Return the operator's pods by name."""
    found = not_terminating(installed.kubectl("get", "pods", *OPERATOR_PODS, "-o", "json"))
    return {pod["metadata"]["name"]: pod for pod in found}


def leader(installed: Installation) -> str:
    """Return the name of the pod that holds the Lease, or an empty string if no pod holds the Lease."""
    lease = ("get", "lease", "gaudi-operator", "--namespace", OPERATOR_NAMESPACE)
    return installed.kubectl(*lease, "-o", "jsonpath={.spec.holderIdentity}")


def wait_leader(installed: Installation) -> str:
    """Wait until a pod holds the Lease and reports itself as leader, and return its name. A handover takes a moment."""

    def leads() -> bool:
        pod = leader(installed)
        return pod in operators(installed) and leader_metric(installed, pod) == 1

    wait_until(leads, "an operator to lead", PATIENCE)
    return leader(installed)


def leader_metric(installed: Installation, pod: str) -> float:
    """Return the value of an operator pod's leader metric, which is 1 for the leader."""
    path = f"/api/v1/namespaces/{OPERATOR_NAMESPACE}/pods/{pod}:8080/proxy/metrics"
    lines = installed.kubectl("get", "--raw", path).splitlines()
    (value,) = [line.split()[1] for line in lines if line.startswith("gaudi_operator_leader ")]
    return float(value)


def another_revision(name: str) -> dict[str, object]:
    """Return spec fields that create a new revision with a slow warm-up."""
    return {"engine": {"env": [{"name": "REVISION", "value": name}], "settings": {"compileSeconds": "4"}}}


def rolls_out(state: dict[str, Any]) -> bool:
    """Return whether a second pod of the current spec exists. A pod of an earlier rollout may still be terminating."""
    return bool(condition(state, "Ready")["reason"] == "RollingOut" and state["status"]["replicas"] == 2)


@pytest.mark.usefixtures("as_installed")
def test_helm_upgrade_of_values_and_image_restarts_no_model_pod(
    installed: Installation, resource: Resource, pods: Pods
) -> None:
    before, old = pods.restarts(), operators(installed)
    installed.cluster.build_image("operator", OTHER_IMAGE)
    changed = (
        f"image.operator={OTHER_IMAGE}",
        "allowHostPath[0].prefix=/models",
        "logging.level=DEBUG",
        "resources.limits.cpu=1",
        # Use one replica. The cluster has only one node, and two pods with the same host port cannot run on one node.
        "hostNetwork=true",
        "httpPort=18080",
        "monitoring.from[0].ipBlock.cidr=10.0.0.0/8",
        "replicas=1",
    )
    install.install_chart(installed, *changed)
    new = operators(installed)
    assert not old.keys() & new.keys()
    assert {pod["spec"]["containers"][0]["image"] for pod in new.values()} == {OTHER_IMAGE}
    assert [pod["status"]["podIP"] == pod["status"]["hostIP"] for pod in new.values()] == [True]
    resource.patch({"rollout": {"revisionHistoryLimit": 4}})  # let the new operator judge the resource
    next(state for state in resource.states(PATIENCE) if is_ready(state))
    assert pods.restarts() == before


def test_helm_test_succeeds(installed: Installation) -> None:
    output = installed.helm("test", RELEASE, "--namespace", OPERATOR_NAMESPACE, "--timeout", "120s")
    assert "Succeeded" in output


def test_exactly_one_of_two_operators_is_the_leader(installed: Installation) -> None:
    first = wait_leader(installed)
    assert [leader_metric(installed, pod) for pod in operators(installed) if pod != first] == [0]


@pytest.mark.parametrize("killed", [True, False], ids=["killed", "stopped"])
def test_rollout_continues_under_a_new_leader(
    installed: Installation, resource: Resource, pods: Pods, killed: bool
) -> None:
    old, first = pods.names(), wait_leader(installed)
    resource.patch(another_revision(f"killed {killed}"))
    next(state for state in resource.states(PATIENCE) if rolls_out(state))
    if killed:
        kill(installed, operators(installed)[first])  # it cannot release its Lease, and has no time to restart
    grace = ("--grace-period=1",) if killed else ()
    installed.kubectl("delete", "pod", "--namespace", OPERATOR_NAMESPACE, first, *grace)
    next(state for state in resource.states(PATIENCE) if is_ready(state))
    assert leader(installed) not in ("", first)
    pods.wait_gone(old)
    assert list(pods.restarts().values()) == [0]


@pytest.mark.usefixtures("as_installed")
def test_models_serve_without_the_chart_and_after_its_reinstallation(
    installed: Installation, resource: Resource, pods: Pods
) -> None:
    before, old = pods.restarts(), pods.only()
    installed.helm("uninstall", RELEASE, "--namespace", OPERATOR_NAMESPACE, "--wait")
    installed.kubectl("wait", "pods", *OPERATOR_PODS, "--for=delete", "--timeout=60s")
    installed.kubectl("get", "crd", "gaudiinferences.inference.gaudi.dev")
    assert json.loads(pods.kubectl("get", "gi", NAME, "-o", "json"))["status"]["readyReplicas"] == 1
    pods.wait_endpoint(old["metadata"]["name"], ready=True)
    assert pods.restarts() == before
    install.install_chart(installed)
    resource.patch(another_revision("reinstalled"))
    next(state for state in resource.states(PATIENCE) if is_ready(state))
    pods.wait_gone({old["metadata"]["name"]})
