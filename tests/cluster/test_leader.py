"""Leader election: one operator leads at a time, and a lost leader is replaced quickly."""

import time
from functools import partial

from gaudi_operator.core.names import NAME_LABEL
from tests.cluster.conftest import NewOperator
from tests.cluster.pods import leads, only_child, ready
from tests.support.builders import gaudi_inference
from tests.support.kube_api import KubeApi, until
from tests.support.kubelet import Kubelet
from tests.support.operator_process import SHORT_LEASE

LEASE = "gaudi-operator"


async def test_two_operators_have_one_leader(api: KubeApi, new_operator: NewOperator) -> None:
    async with new_operator(identity="first") as first:
        await until(partial(leads, first), "the first to lead")
        async with new_operator(identity="second") as second:
            await api.create(gaudi_inference("tiny"))
            await until(partial(only_child, api, "ReplicaSet"), "a ReplicaSet")
            assert not await leads(second)
            assert (await second.get("/readyz")).status_code == 200
            assert await second.value("gaudi_operator_reconciles_total") == 0
            assert await holder(api) == "first"


async def test_killed_leader_is_replaced_after_its_lease_expires(
    api: KubeApi, kubelet: Kubelet, new_operator: NewOperator
) -> None:
    kubelet.on_start = lambda runtime: runtime.warm()
    async with new_operator(identity="first", **SHORT_LEASE) as first:
        await until(partial(leads, first), "the first to lead")
        async with new_operator(identity="second", **SHORT_LEASE) as second:
            await first.kill()
            killed = time.monotonic()
            await until(partial(leads, second), "the second to lead")
            assert time.monotonic() - killed < 3 + 2 * 0.5 + 1  # the lease, two retries, and a slow machine
            await api.create(gaudi_inference("tiny"))
            await until(partial(ready, api), "the resource to be Ready")


async def test_stopped_leader_releases_its_lease(api: KubeApi, new_operator: NewOperator) -> None:
    long = {"lease_duration_seconds": 60, "renew_deadline_seconds": 30}
    async with new_operator(identity="first", **long) as first:
        await until(partial(leads, first), "the first to lead")
        async with new_operator(identity="second", **long) as second:
            assert await first.terminate() == 0
            await until(partial(leads, second), "the second to lead", seconds=5)


async def test_leader_that_loses_its_lease_exits(api: KubeApi, new_operator: NewOperator) -> None:
    process = new_operator(identity="first")
    await process.start()
    await until(partial(leads, process), "it to lead")
    stolen = {"holderIdentity": "thief", "leaseDurationSeconds": 3600}
    await api.merge("Lease", LEASE, {"spec": stolen})
    assert await process.wait(10) == 1
    assert await holder(api) == "thief"
    await api.create(gaudi_inference("tiny"))
    assert not await api.list("ReplicaSet", NAME_LABEL)


async def holder(api: KubeApi) -> str:
    """Return the identity of the Lease holder."""
    lease = await api.get("Lease", LEASE) or {}
    return str(lease["spec"]["holderIdentity"])
