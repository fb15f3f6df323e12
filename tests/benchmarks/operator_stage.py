"""The environment of operator benchmarks: a real API server with controllers, the operator, and a scripted kubelet."""

import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from gaudi_operator.api.crd import NAME, crds_yaml
from gaudi_operator.api.v1alpha1.resource import GROUP
from localcluster import ControlPlane, enter_network_namespace, tools
from tests.benchmarks.figures import Figure, table
from tests.support.addresses import RoomForMany
from tests.support.kube_api import KubeApi, condition_of
from tests.support.kubelet import Kubelet
from tests.support.operator_process import OperatorProcess
from tests.support.permissions import grants

NAMESPACE = "bench"
USER = "system:serviceaccount:gaudi-system:gaudi-operator"
LONG_LEASE = {"lease_duration_seconds": 60, "renew_deadline_seconds": 40, "retry_period_seconds": 5}


@dataclass(frozen=True)
class Stage:
    """An administrator's client of the API server, the operator and the kubelet."""

    api: KubeApi
    kubelet: Kubelet
    operator: OperatorProcess
    plane: ControlPlane


def run_benchmark(
    measure: Callable[[Stage], Awaitable[list[Figure]]], settings: Mapping[str, float] = LONG_LEASE
) -> int:
    """Start the environment, measure and print the table.

    Return 1 if a limit is missed. `settings` are settings of the operator and include the Lease times.
    """
    tools()  # builds the tools if needed: inside the namespace nothing can be downloaded
    enter_network_namespace()
    with tempfile.TemporaryDirectory() as folder, _control_plane(Path(folder)) as plane:
        plane.kubectl("apply", "--server-side", "-f", "-", stdin=crds_yaml())
        # `kubectl wait` would fail, because the conditions of a new CustomResourceDefinition are null at first.
        served = ("api-resources", f"--api-group={GROUP}", "--output=name")
        plane.wait(lambda: NAME in plane.kubectl(*served), f"{NAME} to be served")
        figures = asyncio.run(_measured(plane, Path(folder), measure, settings))
    sys.stdout.write(table(figures) + "\n")
    return int(any(each.missed for each in figures))


def _control_plane(folder: Path) -> ControlPlane:
    return ControlPlane(folder / "plane", addresses=RoomForMany())


async def _measured(
    plane: ControlPlane,
    folder: Path,
    measure: Callable[[Stage], Awaitable[list[Figure]]],
    settings: Mapping[str, float],
) -> list[Figure]:
    async with _stage(plane, folder, settings) as stage:
        return await measure(stage)


@asynccontextmanager
async def _stage(plane: ControlPlane, folder: Path, settings: Mapping[str, float]) -> AsyncIterator[Stage]:
    plane.kubectl("create", "namespace", NAMESPACE)
    for manifest in grants(USER, NAMESPACE):
        plane.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    kubeconfig = plane.run_dir / "operator.kubeconfig"
    plane.authority.issue("operator", USER)
    plane.write_user_kubeconfig("operator", kubeconfig)
    operator = OperatorProcess(kubeconfig, folder / "operator.log", namespace=NAMESPACE, **settings)
    api = KubeApi(plane.addresses.server, plane.run_dir / "pki", NAMESPACE)
    async with operator, Kubelet(api) as kubelet:
        yield Stage(api, kubelet, operator, plane)
    await api.close()


async def requests(operator: OperatorProcess, *aside: str) -> float:
    """Return the requests to the API server so far, without watches, the Lease and the resources `aside`."""
    samples = await operator.samples("gaudi_operator_api_requests_total")
    labels = [(dict(key), value) for key, value in samples.items()]
    return sum(value for key, value in labels if key["resource"] not in ("leases", *aside) and key["verb"] != "watch")


async def settled(operator: OperatorProcess) -> bool:
    """Return whether the operator has sent no request for two seconds."""
    before = await requests(operator)
    await asyncio.sleep(2.0)
    return await requests(operator) == before


async def running(kubelet: Kubelet, count: int) -> bool:
    """Return whether exactly `count` pods run."""
    return len(kubelet.runtimes) == count


async def all_ready(api: KubeApi, *aside: str) -> bool:
    """Return whether every resource is Ready, except the resources in `aside`."""
    resources = [each for each in await api.list("GaudiInference") if each["metadata"]["name"] not in aside]
    return all(condition_of(each, "Ready").get("status") == "True" for each in resources)
