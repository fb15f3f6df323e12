"""Blocks of Kubernetes types in a spec (bad_blocks.py): a wrong block is reported with its path and changes no pod."""

import re
from collections.abc import Mapping
from functools import partial

from gaudi_operator.core.names import NAME_LABEL
from tests.cluster.bad_blocks import FAULTS, MORE_FAULTS, VALID
from tests.cluster.refusals import NONE, Row, check
from tests.cluster.test_refusals import FULL, compared
from tests.cluster.test_requests import count_requests
from tests.support.builders import gaudi_inference
from tests.support.fake_runtime import FakeRuntime
from tests.support.kube_api import KubeApi, Object, condition_of, until
from tests.support.kubelet import Kubelet
from tests.support.operator_process import OperatorProcess

PATH = re.compile(
    # The account policy names the part of the pod at the end of a sentence.
    r"(?<=, and none with )[^.]+|(?<=, and not )[^.]+|\bspec(?!\.pod\. )(?:\.[\w-]+(?:\[[^]]*\])*)+(?: \w+: \w+)?"
)
SECONDS = 240
"""The maximum seconds until all resources of a test have a verdict. Most of this time is for busy machines."""


def names(specs: Mapping[str, Object]) -> dict[str, str]:
    """Return the cases by the name of their resource."""
    return {f"case-{number}": case for number, case in enumerate(specs)}


async def verdicts(api: KubeApi) -> dict[str, Row] | None:
    """Return who refuses each resource, by name, or None while a resource has no condition of its generation."""
    rows = {each["metadata"]["name"]: verdict(each) for each in await api.list("GaudiInference")}
    found = {name: row for name, row in rows.items() if row}
    return found if found.keys() == rows.keys() else None


def verdict(resource: Object) -> Row | None:
    """Return who refuses a resource, with the path of the field, or None if the resource has no condition yet."""
    stalled, ready = condition_of(resource, "Stalled"), condition_of(resource, "Ready")
    if stalled.get("observedGeneration") != resource["metadata"]["generation"]:
        return None
    if stalled["status"] == "True":
        path = PATH.search(stalled["message"])
        return {"by": component(stalled), "reason": stalled["reason"], "path": path[0] if path else ""}
    return {"by": NONE} if ready.get("status") == "True" else None


def component(condition: Object) -> str:
    """Return the component that refuses a resource, according to its condition."""
    if condition["reason"] == "PodNotAllowed" or "ValidatingAdmissionPolicy" in condition["message"]:
        return "account policy"
    return "API server" if condition["reason"] in ("ApiRefused", "ApiForbidden") else "operator"


async def pods(api: KubeApi) -> dict[str, list[tuple[str, bool]]]:
    """Return the UID and readiness of the pods of each resource, by the name of the resource."""
    found: dict[str, list[tuple[str, bool]]] = {}
    for each in await api.list("Pod", NAME_LABEL):
        is_ready = condition_of(each, "Ready").get("status") == "True" and "deletionTimestamp" not in each["metadata"]
        found.setdefault(each["metadata"]["labels"][NAME_LABEL], []).append((each["metadata"]["uid"], is_ready))
    return found


async def all_serve(api: KubeApi) -> bool:
    """Return whether all resources are Ready."""
    return all((row or {}).get("by") == NONE for row in map(verdict, await api.list("GaudiInference")))


async def test_wrong_blocks_of_new_resources_are_refused_with_their_path(
    api: KubeApi, operator: OperatorProcess
) -> None:
    specs = {**FAULTS, **MORE_FAULTS}
    for name, case in names(specs).items():
        await api.create(gaudi_inference(name, **specs[case]))
    found = await until(partial(verdicts, api), "the refusals", seconds=SECONDS, every=1)
    assert await pods(api) == {}
    check("new blocks", {case: found[name] for name, case in names(specs).items()})


async def test_wrong_blocks_of_edits_are_refused_and_pods_stay(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    kubelet.on_start = FakeRuntime.warm
    for name in names(FAULTS):
        await api.create(gaudi_inference(name, **FULL))
    await until(partial(all_serve, api), "all resources to be Ready", seconds=SECONDS, every=1)
    before = await pods(api)
    for name, case in names(FAULTS).items():
        await api.merge("GaudiInference", name, {"spec": {**FAULTS[case], "model": {"maxModelLen": 512}}})
    found = await until(partial(verdicts, api), "the refusals", seconds=SECONDS, every=1)
    after = await pods(api)
    check(
        "edited blocks",
        {
            case: {**found[name], "pods": compared(before[name], after.get(name, []))}
            for name, case in names(FAULTS).items()
        },
    )


async def test_right_blocks_serve_and_their_children_are_written_once(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    kubelet.on_start = FakeRuntime.warm
    for name, case in names(VALID).items():
        await api.create(gaudi_inference(name, **VALID[case]))
    await until(partial(all_serve, api), "all resources to be Ready", seconds=SECONDS, every=1)
    counted = await count_requests(operator)
    written = {kind: counted[f"patch {kind}"] for kind in ("replicasets", "networkpolicies")}
    assert written == dict.fromkeys(written, len(VALID))
