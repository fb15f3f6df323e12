"""The state machine's commands against a real API server and real operators. `make soak` runs a thousand steps."""

import os
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from localcluster import ControlPlane
from localcluster.control_plane.kubeconfig import write_kubeconfig
from tests.cluster.conftest import NewOperator
from tests.cluster.real_world import STORY_STEPS, RealWorld
from tests.laws.history import History
from tests.laws.laws import ALWAYS, IN_THE_END, broken
from tests.laws.showing import stalled_for_room_only_after_the_deadline
from tests.support.api_proxy import ApiProxy
from tests.support.kube_api import KubeApi
from tests.support.kubelet import Kubelet
from tests.support.operator_process import SHORT_LEASE, OperatorProcess

STEPS = int(os.environ.get("GAUDI_SOAK_CLUSTER_STEPS", "100"))
SEED = int(os.environ.get("GAUDI_SOAK_SEED", "1"))
"""A fixed seed. `make soak` uses new ones."""
SECONDS_PER_STEP = 3


@pytest.fixture
async def proxy(control_plane: ControlPlane) -> AsyncIterator[ApiProxy]:
    """A proxy to the API server. Tests can disturb the connections through the proxy."""
    async with ApiProxy(control_plane.addresses.node_ip, 6443) as running:
        yield running


@pytest.fixture
def operators(
    control_plane: ControlPlane, proxy: ApiProxy, new_operator: NewOperator, namespace: str, tmp_path: Path
) -> list[OperatorProcess]:
    """Two operators that reach the API server only through the proxy."""
    path = tmp_path / "kubeconfig"
    write_kubeconfig(path, proxy.url, control_plane.run_dir / "pki", "operator", control_plane.run_dir.name)
    return [
        OperatorProcess(
            path,
            tmp_path / f"{name}.log",
            identity=name,
            namespace=namespace,
            watch_namespaces=namespace,
            **SHORT_LEASE,
        )
        for name in ("first", "second")
    ]


# Exclude the law about the deadline for room. To avoid a wait for this deadline, the kubelet of these tests reports
# pods as unschedulable since a time in the past.
LAWS = tuple(law for law in ALWAYS + IN_THE_END if law is not stalled_for_room_only_after_the_deadline)


@pytest.mark.timeout(120 + STEPS * SECONDS_PER_STEP)
async def test_random_commands_break_no_law(
    api: KubeApi, kubelet: Kubelet, proxy: ApiProxy, operators: list[OperatorProcess]
) -> None:
    async with RealWorld(api, kubelet, proxy, operators, random.Random(SEED)) as world:  # noqa: S311
        steps = [f"{world.recorder.now():.1f} s: {await world.step()}" for _ in range(STEPS)]
        await world.settle()
        found = broken(world.history, LAWS)
    figures = f"seed {SEED}, {STEPS} steps, {world.counts}, {_figures(world.history)}"
    print(f"{figures}, {len(found)} violations")  # noqa: T201 - a long run is judged by it
    assert not found, "\n".join([f"GAUDI_SOAK_SEED={SEED} makes the same choices", *steps, *found])
    defects = [line for operator in operators for line in operator.lines() if "exception" in line]
    assert not defects, "an operator logged a defect"
    assert 2 * _opened(world.history) >= STEPS // STORY_STEPS, "too few gates opened for a meaningful run"


def _figures(history: History) -> str:
    """Return the size of the record. The size shows how much a run has tested."""
    pods = {uid for moment in history.moments for uid in moment.pods}
    revisions = {revision for moment in history.moments for revision in moment.replica_sets}
    statuses = sum(now.status != before.status for _, before, now in history.steps())
    return (
        f"{len(history.moments)} moments, {len(pods)} pods of {len(revisions)} revisions, "
        f"{_opened(history)} gates opened, {statuses} statuses"
    )


def _opened(history: History) -> int:
    """Return the number of opened gates. A gate counts once per container instance."""
    return len({pod.judged for moment in history.moments for pod in moment.pods.values() if pod.judged})
