"""Random specs on a real API server and a real operator. Another resource keeps serving."""

import os
from functools import partial
from http import HTTPStatus

import httpx

from gaudi_operator.core.names import NAME_LABEL
from tests.cluster.conftest import NewOperator
from tests.cluster.pods import ready
from tests.cluster.test_hostile_plans import peak_memory
from tests.support.builders import gaudi_inference
from tests.support.conformance import violations
from tests.support.fake_runtime import FakeRuntime
from tests.support.kube_api import KubeApi, condition_of, until
from tests.support.kubelet import Kubelet
from tests.support.operator_process import OperatorProcess
from tests.unit.operator.hostile.any_spec import Generator

SPECS = int(os.environ.get("GAUDI_SOAK_API_SPECS", "30"))
SEED = int(os.environ.get("GAUDI_SOAK_SEED", "1"))
MOST_PASSES = 40
"""Maximum reconciles of one resource: each write of a child triggers one. An endless loop has hundreds."""

REFUSALS = {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.REQUEST_ENTITY_TOO_LARGE}


async def admitted(api: KubeApi) -> list[str]:
    """Create random specs and return the names of the accepted specs.

    The API server must name the error of each other spec.
    """
    generator, names = Generator(SEED), list[str]()
    for number in range(SPECS):
        manifest = {**gaudi_inference(f"any-{number}"), "spec": generator.spec()}
        try:
            await api.create(manifest)
        except httpx.HTTPStatusError as error:
            if error.response.status_code not in REFUSALS or "spec." not in str(error):
                raise
        else:
            names.append(manifest["metadata"]["name"])
    return names


async def resources_without_verdict(api: KubeApi) -> list[str]:
    """Return the names of the resources that the operator has neither accepted nor refused yet."""
    found = await api.list("GaudiInference")
    return [each["metadata"]["name"] for each in found if condition_of(each, "PlanAccepted").get("status") is None]


async def test_any_spec_gets_a_status_while_others_serve(
    api: KubeApi, other_api: KubeApi, kubelet: Kubelet, new_operator: NewOperator
) -> None:
    async def all_judged() -> bool:
        return not await resources_without_verdict(other_api)

    kubelet.on_start = FakeRuntime.warm
    watched = f"{api.namespace},{other_api.namespace}"
    async with new_operator(watch_namespaces=watched) as operator:
        pid = operator.pid
        names = await admitted(other_api)
        assert len(names) > SPECS / 5
        await api.create(gaudi_inference("tiny", replicas=1))
        await until(partial(ready, api), "the other resource to be Ready", seconds=60)
        await until(all_judged, "every spec to be judged", seconds=60 + 4 * SPECS)
        await api.merge("GaudiInference", "tiny", {"spec": {"replicas": 2}})
        await until(partial(ready, api), "the other resource to have two replicas", seconds=60)
        for each in await other_api.list("GaudiInference"):
            assert violations(each) == [], each["metadata"]["name"]
        assert operator.pid == pid
        assert operator.running
        assert not [line for line in operator.lines() if "exception" in line], "the operator logged a defect"
        assert await operator.value("gaudi_operator_reconciles_total") < MOST_PASSES * (len(names) + 1)
        assert peak_memory(pid) < 256


async def test_special_characters_in_a_variable_are_passed_to_the_pod(
    api: KubeApi, kubelet: Kubelet, operator: OperatorProcess
) -> None:
    """Write an emoji without escapes. JSON uses two escapes for an emoji, and YAML does not support these escapes."""
    kubelet.on_start = FakeRuntime.warm
    text = "\U0001f600 \x7f\x85\u2028\ufeff\uffff\\u0041\t"
    await api.create(gaudi_inference("tiny", engine={"env": [{"name": "ANY", "value": text}]}))
    await until(partial(ready, api), "the resource to be Ready")
    (pod,) = await api.list("Pod", NAME_LABEL)
    assert {"name": "ANY", "value": text} in pod["spec"]["containers"][0]["env"]
