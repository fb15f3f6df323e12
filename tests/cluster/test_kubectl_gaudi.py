"""`kubectl gaudi` as a user runs it: kubectl finds the plugin on the PATH, and the real operator reacts."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from posixpath import basename

import pytest
import yaml

from gaudi_operator.cli.cluster import FIELD_MANAGER
from gaudi_operator.core.names import NAME_LABEL
from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.contract.ports import CONFIG_PATH
from gaudi_runtime.contract.report import FEWEST_PROMPTS, BucketPhase, Phase, ServedTrafficReport
from gaudi_runtime.planning.optimal.strategy import forecast_strategy_padding
from gaudi_runtime.planning.planner import make_plan
from gaudi_runtime.report.served import summarize_served
from gaudi_runtime.traffic.serving_histogram import ServingHistogram, make_padder
from localcluster import ControlPlane
from localcluster.programs import build
from tests.cluster.pods import all_running, container_ready, gate, pod_ready, ready, stalled
from tests.cluster.test_rollout import CHANGED, rolled_out, runs_alone, watched
from tests.cluster.test_rollout import revisions as names_of_revisions
from tests.support.builders import Object, gaudi_inference
from tests.support.fake_runtime import FakeRuntime
from tests.support.kube_api import KubeApi, until
from tests.support.kubelet import Kubelet
from tests.support.operator_process import OperatorProcess

MET = "".join(f"prompt 1 {100 + at} 0 {at}\ndecode 1 1 {at} 9\n" for at in range(1, 8))


@dataclass
class Result:
    """The result of one call of `kubectl gaudi`."""

    code: int | None
    out: str
    error: str


Gaudi = Callable[..., Awaitable[Result]]


@pytest.fixture
def gaudi(control_plane: ControlPlane, namespace: str) -> Gaudi:
    """Run `kubectl gaudi ...` in the test's namespace."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "KUBECONFIG": str(control_plane.kubeconfig)}

    async def call(*arguments: str) -> Result:
        process = await asyncio.create_subprocess_exec(
            *(str(build.kubernetes() / "kubectl"), "gaudi", *arguments, "-n", namespace),
            env=environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, error = await process.communicate()
        return Result(process.returncode, out.decode(), error.decode())

    return call


async def test_rollout_commands_pause_resume_fail_and_retry_with_force(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess, gaudi: Gaudi
) -> None:
    kubelet.on_start = warm_with_traffic
    await api.create(gaudi_inference("tiny"))
    await until(partial(ready, api), "the resource to be Ready")
    good = await names_of_revisions(api)
    led = await gaudi("status", "tiny", "--lease", f"{api.namespace}/gaudi-operator")
    assert " 100 % " in led.out
    assert led.out.splitlines()[1].startswith("Serving: ")
    alone = await gaudi("status", "tiny", "--lease", f"{api.namespace}/missing")
    no_leader = f"NoLeader: No operator leads: the Lease {api.namespace}/missing does not exist "
    assert alone.out.splitlines()[1].startswith(no_leader)
    learned = await gaudi("plan", "learn", "tiny")
    optimal = yaml.safe_load(learned.out)["spec"]["bucketing"]["optimal"]
    assert "prompt 1 107 0 7" in optimal["traffic"]
    # The learned spec sets no number of graphs. Without a budget, Optimal plans the smallest number of graphs that
    # needs no more padding than Exponential.
    assert {name for name, value in optimal.items() if value is not None} == {"traffic"}

    kubelet.on_start = lambda runtime: runtime.update(phase=Phase.COMPILING, since_progress_seconds=1801)
    assert (await gaudi("rollout", "pause", "tiny")).out == "gaudiinference.inference.gaudi.dev/tiny paused\n"
    await api.merge("GaudiInference", "tiny", CHANGED)
    held = await gaudi("rollout", "status", "tiny", "--timeout=1s")
    assert (held.code, held.error.startswith("error: timed out after 1s: Waiting for")) == (1, True)
    assert (await gaudi("rollout", "resume", "tiny")).code == 0

    stopped = await gaudi("rollout", "status", "tiny", "--timeout=60s")
    assert stopped.code == 1
    assert 'error: gaudiinference "tiny" stopped (RolledBack): Revision ' in stopped.error
    (failed,) = await names_of_revisions(api) - good
    history, refused = await asyncio.gather(
        gaudi("rollout", "history", "tiny"), gaudi("rollout", "undo", "tiny", "--to-revision", failed)
    )
    assert [line.split()[2] for line in history.out.splitlines()[2:]] == ["RolledBack", "Serving"]
    assert (refused.code, "failed before (WarmupStalled)" in refused.error) == (1, True)

    kubelet.on_start = warm_with_traffic
    undone = await gaudi("rollout", "undo", "tiny", "--to-revision", failed, "--force")
    assert undone.out.startswith("gaudiinference.inference.gaudi.dev/tiny rolled back to revision ")
    followed = await gaudi("rollout", "status", "gi/tiny", "--timeout=60s")
    assert (followed.code, followed.error) == (0, "")
    assert followed.out.endswith('gaudiinference "tiny" successfully rolled out\n')
    await until(partial(rolled_out, api, good), "the last old pod to end, which is after the end of the rollout")
    managers = (await api.get("GaudiInference", "tiny") or {})["metadata"]["managedFields"]
    assert FIELD_MANAGER in {each["manager"] for each in managers}

    known = await names_of_revisions(api)
    applied = await gaudi("plan", "learn", "tiny", "--as", "file", "--apply")
    assert (applied.code, applied.error.endswith("gaudiinference.inference.gaudi.dev/tiny patched\n")) == (0, True)
    assert (await gaudi("rollout", "status", "tiny", "--timeout=60s")).code == 0
    bucketing = (await api.get("GaudiInference", "tiny") or {})["spec"]["bucketing"]
    assert (bucketing["strategy"], "(1, 112, 0)" in bucketing["file"]) == ("File", True)
    assert len(await names_of_revisions(api) - known) == 1


async def test_restart_replaces_all_pods_and_is_listed_in_the_history(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess, gaudi: Gaudi
) -> None:
    kubelet.on_start = lambda runtime: runtime.warm()
    await api.create(gaudi_inference("tiny"))
    await until(partial(ready, api), "the resource to be Ready")
    old = {each["metadata"]["name"] for each in await api.list("Pod", NAME_LABEL)}

    restarted = await gaudi("rollout", "restart", "tiny")
    assert (restarted.code, restarted.out) == (0, "gaudiinference.inference.gaudi.dev/tiny restarted\n")
    assert (await gaudi("rollout", "status", "tiny", "--timeout=60s")).code == 0
    await until(partial(no_pod_of, api, old), "the old pods to end")

    title, _, details = (await gaudi("rollout", "history", "tiny", "--revision=2")).out.partition("\n")
    assert title == "gaudiinference.inference.gaudi.dev/tiny with revision #2"
    assert "restartedAt" in yaml.safe_load(details)["inputs"]


async def no_pod_of(api: KubeApi, old: set[str]) -> bool:
    return not old & {each["metadata"]["name"] for each in await api.list("Pod", NAME_LABEL)}


def warm_with_traffic(runtime: FakeRuntime) -> None:
    runtime.traffic = MET
    runtime.warm()


async def test_learned_plan_with_more_padding_than_forecast_is_rolled_back(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess, gaudi: Gaudi
) -> None:
    kubelet.on_start = warm_with_traffic
    await api.create(gaudi_inference("tiny", replicas=2))
    await until(partial(ready, api), "the resource to be Ready")
    good = await names_of_revisions(api)
    old = set(await until(partial(all_running, api, kubelet, 2), "both pods"))
    async with watched(api) as seen:
        assert (await gaudi("plan", "learn", "tiny", "--apply")).code == 0
        (canary,) = set(await until(partial(all_running, api, kubelet, 3), "the canary")) - old
        await until(partial(gate, api, canary, "True"), "the canary to take traffic")
        served = await served_prompts(api, canary, Bucket(1, 165, 0))
        kubelet.runtime(canary).update(served=served)
        stopped = await until(partial(stalled, api, "RolledBack"), "the rollback to end", seconds=60)
    assert f"computed {served.prompt.padding:.3f} times the real tokens" in stopped["message"]
    assert f"the forecast for batches of these sizes was {served.prompt.forecast_padding:.3f}" in stopped["message"]
    assert min(seen.available) >= 2
    await until(partial(runs_alone, api, *good), "the canary to have ended")
    assert old == {each["metadata"]["name"] for each in await api.list("Pod", NAME_LABEL)}


async def served_prompts(api: KubeApi, pod: str, prompt: Bucket) -> ServedTrafficReport:
    """Return the serving report of the pod's runtime after enough prompts of one shape."""
    manifest = await api.get("Pod", pod) or {}
    (name,) = (volume["configMap"]["name"] for volume in manifest["spec"]["volumes"] if "configMap" in volume)
    found = await api.get("ConfigMap", name) or {}
    config = RuntimeConfig.model_validate_json(found["data"][basename(CONFIG_PATH)])
    plan = make_plan(config.bucketing, config.limits, kv_blocks=64)
    histogram = ServingHistogram(make_padder(plan, config.limits, lambda _phase, _bucket: True))
    histogram.padding = forecast_strategy_padding(config.bucketing, config.limits, plan)
    for _ in range(FEWEST_PROMPTS):
        histogram.count_batch(BucketPhase.PROMPT, prompt)
    return summarize_served(histogram)


async def test_gate_of_a_warm_pod_opens_without_an_operator(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess, gaudi: Gaudi
) -> None:
    kubelet.on_start = FakeRuntime.warm
    await api.create(gaudi_inference("tiny", replicas=2))
    await until(partial(ready, api), "the resource to be Ready")
    await operator.kill()
    kubelet.on_start = lambda runtime: runtime.captured(5, 10)
    first, second = await until(partial(all_running, api, kubelet, 2), "two pods")
    await api.send("POST", api.path("Pod", first, "eviction"), eviction(first))
    successor = await until(partial(replacement, api, kubelet, {first, second}), "the successor of the evicted pod")

    refused = await gaudi("gate", "open", successor)
    assert (refused.code, "The runtime is in phase Capturing" in refused.error) == (1, True)
    assert (await gaudi("gate", "open", "no-such-pod")).error == (
        f"error: there is no pod no-such-pod of a GaudiInference in namespace {api.namespace}.\n"
    )
    kubelet.runtime(successor).warm()
    await until(partial(container_ready, api, successor), "the container of the successor to be ready")
    await until(partial(allows_disruptions, api, 0), "the disruption budget to refuse the second eviction")

    opened = await gaudi("gate", "open", successor)
    assert (opened.code, opened.error) == (0, "")
    await until(partial(pod_ready, api, successor), "the successor to be Ready")
    await until(partial(allows_disruptions, api, 1), "the disruption budget to allow the second eviction")
    await api.send("POST", api.path("Pod", second, "eviction"), eviction(second))
    message = (await gate(api, successor, "True") or {})["message"]
    assert f"gate opened: {message}" in opened.out
    await operator.start()
    kubelet.on_start = FakeRuntime.warm
    last = await until(partial(replacement, api, kubelet, {first, second, successor}), "the second successor")
    kubelet.runtime(last).warm()
    await until(partial(ready, api), "the resource to be Ready again")
    assert (await gate(api, successor, "True") or {})["message"] == message


def eviction(pod: str) -> Object:
    """Return the request to evict a pod."""
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}


async def allows_disruptions(api: KubeApi, count: int) -> bool:
    """Return whether the disruption budget of the resource allows `count` evictions now."""
    budget = await api.get("PodDisruptionBudget", "tiny") or {}
    return bool(budget["status"]["disruptionsAllowed"] == count)


async def replacement(api: KubeApi, kubelet: Kubelet, known: set[str]) -> str | None:
    """Return the running pod of the resource that is not in `known`."""
    names = {each["metadata"]["name"] for each in await api.list("Pod", NAME_LABEL)} - known
    return next((name for name in names if name in kubelet.runtimes), None)
