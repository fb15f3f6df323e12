"""Bad specs for a serving resource. The API server, the operator or a pod refuses each of them before pods change."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import httpx

from gaudi_operator.api.structural_schema import Schema, structural_schema
from gaudi_operator.api.v1alpha1.resource import GaudiInference
from gaudi_operator.core.names import NAME_LABEL
from tests.cluster.bad_object import Bad
from tests.cluster.bad_objects import BAD_OBJECTS
from tests.cluster.conftest import NewClass, NewOperator
from tests.cluster.pods import ready
from tests.cluster.refusals import NONE, Row, check
from tests.cluster.test_plan_accepted import HALVED, IMPOSSIBLE
from tests.support.builders import gaudi_inference
from tests.support.fake_runtime import FakeRuntime
from tests.support.kube_api import KubeApi, Object, condition_of, until
from tests.support.kubelet import Kubelet
from tests.support.operator_process import OperatorProcess
from tests.unit.operator.core.limit_cases import BEYOND, LIMITED, NEEDS_PERMISSION
from tests.unit.operator.hostile.specs import REFUSED

Pods = list[tuple[str, bool]]
ACCEPTED = "Accepted"
STRICT = {"fieldValidation": "Strict"}
SLICES = {"PT_HPU_SDPA_QKV_SLICE_MODE_FWD": "true"}
WRONG_SETTINGS: dict[str, Mapping[str, Any]] = {
    "a script of sim with vllm": {"engine": {"settings": {"compileSeconds": "1"}}},
    "padding limit with Linear": {
        "engine": {"settings": {"VLLM_DECODE_BS_BUCKET_PAD_MAX": 4}},
        "bucketing": {"strategy": "Linear"},
    },
    "slices with Optimal": {"engine": {"name": "vllm", "settings": SLICES}, "bucketing": {"strategy": "Optimal"}},
    "unknown order": {"engine": {"settings": {"VLLM_GRAPH_PROMPT_STRATEGY": "random"}}},
}
SPECS: dict[str, Mapping[str, Any]] = {
    **WRONG_SETTINGS,
    **{case: spec for case, (spec, _) in REFUSED.items()},
    **{case: spec for case, (spec, _) in IMPOSSIBLE.items()},
    "gaps of a bucket file": {"bucketing": HALVED},
    **{f"without a class: {json.dumps(spec)}": spec for _, _, spec, _ in NEEDS_PERMISSION},
}
"""Specs that the API server accepts and that must not run."""
FULL = {"rollout": {"type": "InPlace"}}
"""A rollout without free cards: a pod of the edited spec could start only after the serving pod has ended."""


def rule_messages(node: Schema) -> Iterator[str]:
    """Yield the messages of all CEL rules in a schema."""
    for rule in node.get("x-kubernetes-validations", ()):
        yield rule["message"]
    for below in (*node.get("properties", {}).values(), node.get("items"), node.get("additionalProperties")):
        if below:
            yield from rule_messages(below)


MESSAGES = frozenset(rule_messages(structural_schema(GaudiInference)))


async def refusal(api: KubeApi, manifest: Object, version: str | None = None) -> str:
    """Return the API server's message if it refuses the object, and an empty text if it accepts the object.

    The request replaces the object of this resource version. Without a version, it is a dry run that creates an object.
    """
    metadata = {**manifest["metadata"], **({"resourceVersion": version} if version else {})}
    method, name, how = ("PUT", metadata["name"], {}) if version else ("POST", "", {"dryRun": "All"})
    path, headers = api.path("GaudiInference", name), {"Content-Type": "application/json"}
    try:
        await api.send(method, path, {**manifest, "metadata": metadata}, headers=headers, params={**STRICT, **how})
    except httpx.HTTPStatusError as error:
        return str(error.response.json()["message"])
    return ""


async def serving_pods(api: KubeApi, name: str) -> Pods:
    """Return the UID and readiness of the pods of a resource that are not terminating."""
    found = await api.list("Pod", f"{NAME_LABEL}={name}")
    return [
        (each["metadata"]["uid"], condition_of(each, "Ready").get("status") == "True")
        for each in found
        if "deletionTimestamp" not in each["metadata"]
    ]


def compared(before: Pods, after: Pods) -> str:
    """Return what happened to the serving pods of a resource. Pods that an edit of replicas adds do not count."""
    return "untouched" if set(before) <= set(after) else "changed"


async def refused_object(api: KubeApi, bad: Bad) -> dict[str, str]:
    """Return who refuses a new object, and an edit of the serving resource `tiny` with the same spec."""
    created = await refusal(api, bad.manifest())
    current = await api.get("GaudiInference", "tiny") or {}
    tiny = gaudi_inference("tiny", **bad.spec)
    edited = await refusal(api, tiny, current["metadata"]["resourceVersion"]) if bad.spec else created
    if not (created and edited):
        return {"by": NONE}
    if not (bad.message in created and bad.path in created):
        return {"by": "API server", "reason": created}
    rule = any(bad.message in each for each in MESSAGES if each in created)
    return {"by": "CEL" if rule else "API server", "reason": f"{bad.path}{bad.message}"}


async def test_bad_objects_are_refused_as_in_the_table(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    kubelet.on_start = FakeRuntime.warm
    await api.create(gaudi_inference("tiny"))
    await until(partial(ready, api), "the resource to be Ready")
    before = await serving_pods(api, "tiny")
    rows = {bad.case: await refused_object(api, bad) for bad in BAD_OBJECTS}
    after = await serving_pods(api, "tiny")
    check("objects", {case: {**row, "pods": compared(before, after)} for case, row in rows.items()})


async def verdict(api: KubeApi, name: str, generation: int) -> str | None:
    """Return the reason of the refusal of this generation, ACCEPTED if its pods serve, or None while both are open."""
    found = condition_of(await api.get("GaudiInference", name), "PlanAccepted")
    if found.get("status") == "False" and found["observedGeneration"] == generation:
        return str(found["reason"])
    return ACCEPTED if await ready(api, name) else None


async def refused_edit(api: KubeApi, name: str, spec: Mapping[str, Any]) -> dict[str, str]:
    """Return who refuses an edit of a serving resource, and what happens to its pods."""
    await api.create(gaudi_inference(name, **FULL))
    await until(partial(ready, api, name), f"{name} to be Ready", seconds=120)
    before = await serving_pods(api, name)
    edited = gaudi_inference(name, **{**FULL, **spec})
    current = await api.get("GaudiInference", name) or {}
    if message := await refusal(api, edited, current["metadata"]["resourceVersion"]):
        return {"by": "API server", "reason": message, "pods": "untouched"}
    generation = current["metadata"]["generation"] + 1
    reason = await until(partial(verdict, api, name, generation), f"the refusal of {name}", seconds=120)
    revisions = await api.list("ControllerRevision", f"{NAME_LABEL}={name}")
    pods = compared(before, await serving_pods(api, name))
    # A pod can refuse only a spec of which the operator has stored a revision.
    by = NONE if reason == ACCEPTED else "operator" if len(revisions) == 1 else "pod"
    return {"by": by, "reason": reason, "pods": pods}


async def test_accepted_bad_specs_are_refused_as_in_the_table(
    api: KubeApi, kubelet: Kubelet, new_operator: NewOperator
) -> None:
    kubelet.on_start = FakeRuntime.warm
    async with new_operator():
        edits = [refused_edit(api, f"bad-{number}", spec) for number, spec in enumerate(SPECS.values())]
        rows = await asyncio.gather(*edits)
    check("specs", dict(zip(SPECS, rows, strict=True)))


async def refused_by_class(api: KubeApi, name: str, class_name: str, limit: str, spec: Mapping[str, Any]) -> Row:
    """Return who refuses an edit that exceeds a limit of the class, and what happens to the serving pods."""
    row = await refused_edit(api, name, {**spec, "className": class_name})
    message = condition_of(await api.get("GaudiInference", name), "PlanAccepted")["message"]
    return {**row, "reason": f"limits.{limit}"} if f"limits.{limit}" in message else row


async def limited_by_class(api: KubeApi, name: str, class_name: str, spec: Mapping[str, Any]) -> Row:
    """Return who limits the replicas of a resource."""
    await api.create(gaudi_inference(name, className=class_name, **spec))

    async def limited() -> bool:
        found = condition_of(await api.get("GaudiInference", name), "ReplicasLimited")
        return found.get("status") == "True"

    await until(limited, f"the replicas of {name} to be limited", seconds=120)
    return {"by": "operator", "reason": "ReplicasLimited"}


async def test_specs_beyond_limits_are_refused_as_in_the_table(
    api: KubeApi, kubelet: Kubelet, new_operator: NewOperator, new_class: NewClass
) -> None:
    kubelet.on_start = FakeRuntime.warm
    cases = [*(each[:2] for each in BEYOND), *(each[:2] for each in LIMITED)]
    classes = [new_class(str(number), limits=limits) for number, (limits, _) in enumerate(cases)]
    async with new_operator(allow_host_path='[{"prefix": "/models"}]'):
        refused = (
            refused_by_class(api, f"bad-{number}", classes[number], next(iter(limits)), spec)
            for number, (limits, spec, _) in enumerate(BEYOND)
        )
        limited = (
            limited_by_class(api, f"many-{number}", classes[len(BEYOND) + number], each[1])
            for number, each in enumerate(LIMITED)
        )
        rows = await asyncio.gather(*refused, *limited)
    check(
        "classes", {f"{json.dumps(each[0])}: {json.dumps(each[1])}": row for each, row in zip(cases, rows, strict=True)}
    )
