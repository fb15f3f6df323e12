"""The start of an operator with many existing resources. The operator reconciles all resources in time."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import httpx
import pytest

from gaudi_operator.api.crd import NAME, crds_yaml
from gaudi_operator.api.v1alpha1.resource import GROUP
from gaudi_operator.core.actions import Apply, Decision
from gaudi_operator.core.decide import decide
from gaudi_operator.core.installation import InstallationDefaults
from gaudi_operator.core.names import FIELD_MANAGER
from gaudi_operator.core.observed import Manifest
from gaudi_operator.shell.client import SERVER_APPLY, ClusterClient, Connection
from gaudi_operator.shell.kinds import RESOURCE, kind_of
from gaudi_operator.shell.watching.list_watch import PAGE_SIZE
from gaudi_operator.shell.watching.store import Store, StoreKey
from gaudi_operator.shell.watching.trimmed_objects import decode_trimmed_templates
from gaudi_operator.shell.writing.writer import Writer
from localcluster import ControlPlane
from tests.cluster.conftest import USER
from tests.support.addresses import RoomForMany
from tests.support.background import Background
from tests.support.builders import gaudi_inference
from tests.support.kube_api import KubeApi, until
from tests.support.operator_process import OperatorProcess
from tests.support.permissions import grants

RESOURCES = PAGE_SIZE + 100
"""More than a page of a list. The benchmark thousand.py measures a thousand."""
PATIENCE = 180.0
AT_ONCE = 32
NAMESPACE = "many"
NAMES = [f"many-{number}" for number in range(RESOURCES)]
CHANGED = NAMES[:: RESOURCES // 10]
"""The resources that are changed while no operator runs."""
NEW_PORT = 8123
Holder = tuple[str, int]
DEFAULTS = InstallationDefaults(
    runtime_image="registry.test/runtime:1", hpu_image="registry.test/runtime-hpu:1", operator_namespace=NAMESPACE
)


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An additional API server.

    Otherwise thousands of objects would remain in the shared API server for all other tests.
    """
    folder = tmp_path_factory.mktemp("many")
    with ControlPlane(folder, addresses=RoomForMany(node_ip="10.200.1.1")) as plane:
        plane.kubectl("apply", "--server-side", "-f", "-", stdin=crds_yaml())
        served = ("api-resources", f"--api-group={GROUP}", "--output=name")
        plane.wait(lambda: NAME in plane.kubectl(*served), f"{NAME} to be served")
        plane.kubectl("create", "namespace", NAMESPACE)
        for manifest in grants(USER, NAMESPACE):
            plane.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
        plane.authority.issue("operator", USER)
        plane.write_user_kubeconfig("operator", plane.run_dir / "operator.kubeconfig")
        yield plane


@pytest.fixture
async def api(plane: ControlPlane) -> AsyncIterator[KubeApi]:
    """An administrator's client of the additional API server."""
    client = KubeApi(plane.addresses.server, plane.run_dir / "pki", NAMESPACE)
    yield client
    await client.close()


def operator_of(plane: ControlPlane, log: Path) -> OperatorProcess:
    """Return an operator with the Lease times of the chart."""
    times = {"lease_duration_seconds": 15, "renew_deadline_seconds": 10, "retry_period_seconds": 2}
    images = {"runtime_image": DEFAULTS.runtime_image, "hpu_image": DEFAULTS.hpu_image}
    return OperatorProcess(plane.run_dir / "operator.kubeconfig", log, namespace=NAMESPACE, **times, **images)


@pytest.mark.timeout(900)  # thousands of objects take half a minute to create, and more on a busy machine
async def test_operator_starts_with_many_existing_resources(plane: ControlPlane, api: KubeApi, tmp_path: Path) -> None:
    await _create_all(plane)
    for name in CHANGED:
        await api.merge("GaudiInference", name, {"spec": {"service": {"port": NEW_PORT}}})
    async with _renewals(api) as holders, operator_of(plane, tmp_path / "operator.log") as operator:
        await until(partial(_caught_up, operator, api), "the first reconcile of all", seconds=PATIENCE, every=0.5)
        known = len(holders)
        await until(partial(_has_renewals, holders, known + 3), "three renewals of the Lease", seconds=PATIENCE)
        assert await _written(operator) == {"services": len(CHANGED)}
    assert len(set(holders)) == 1, "the Lease changed its holder"


async def _caught_up(operator: OperatorProcess, api: KubeApi) -> bool:
    """Return whether every resource was reconciled and all changes are applied. All resources share one queue."""
    with suppress(httpx.ReadTimeout):  # a busy API server answers late
        if await operator.value("gaudi_operator_reconciles_total") >= RESOURCES:
            services = [await api.get("Service", name) for name in CHANGED]
            return all(service and service["spec"]["ports"][0]["port"] == NEW_PORT for service in services)
    return False


async def _has_renewals(renewals: list[Holder], count: int) -> bool:
    return len(renewals) >= count


async def _written(operator: OperatorProcess) -> dict[str, float]:
    """Return the number of writes by resource, except status, events and Leases.

    A reconcile with incomplete caches would write children that already exist.
    """
    samples = await operator.samples("gaudi_operator_api_requests_total")
    reported = ("leases", "events", "gaudiinferences/status")
    labels = [(dict(key), value) for key, value in samples.items()]
    written = [
        (key["resource"], value) for key, value in labels if key["verb"] in ("create", "update", "patch", "delete")
    ]
    return {resource: value for resource, value in written if resource not in reported}


async def _create_all(plane: ControlPlane) -> None:
    """Create many resources without replicas, each with the children and the status that an operator would create."""
    slots = asyncio.Semaphore(AT_ONCE)
    async with await Connection.connect(str(plane.kubeconfig)) as connection:
        cluster = ClusterClient(connection, lambda *_: None)
        await asyncio.gather(*(_create(cluster, slots, name) for name in NAMES))


async def _create(cluster: ClusterClient, slots: asyncio.Semaphore, name: str) -> None:
    async with slots:
        store = Store()
        resource = gaudi_inference(name, replicas=0)
        store.put(await cluster.request("POST", RESOURCE.path(NAMESPACE), resource))
        for action in _plan(store, name).actions:
            assert isinstance(action, Apply)
            store.put(await _applied(cluster, action.manifest))
        plan = _plan(store, name)
        assert not plan.actions
        stored = store.resource(StoreKey(NAMESPACE, name))
        assert stored
        await Writer(cluster, store).write_status(stored, plan.status)


async def _applied(cluster: ClusterClient, manifest: Manifest) -> Manifest:
    path = kind_of(manifest).path(NAMESPACE, manifest["metadata"]["name"])
    query = {"fieldManager": FIELD_MANAGER, "force": "true"}
    return await cluster.request("PATCH", path, manifest, query=query, content_type=SERVER_APPLY)


def _plan(store: Store, name: str) -> Decision:
    observed = store.observe(StoreKey(NAMESPACE, name), {}, datetime.now(UTC))
    assert observed
    return decide(decode_trimmed_templates(observed), DEFAULTS)


@asynccontextmanager
async def _renewals(api: KubeApi) -> AsyncIterator[list[Holder]]:
    """Collect the Lease holder and the number of leader changes at each renewal from now on."""
    holders: list[Holder] = []

    async def watch() -> None:
        async for event in api.watch("Lease"):
            spec = event["object"]["spec"]
            if event["type"] == "MODIFIED" and spec.get("holderIdentity"):
                holders.append((spec["holderIdentity"], spec["leaseTransitions"]))

    background = Background()
    background.spawn(watch())
    yield holders
    await background.stop()
    background.check()
