"""Valid objects that the API server stores: examples, defaults, scaling, and the output of kubectl."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from tests.cluster.conftest import Kubectl
from tests.cluster.objects import Objects
from tests.support.builders import Object, gaudi_inference, merged, minimal_gaudi_inference
from tests.support.examples import EXAMPLES

STATUS = {
    "observedGeneration": 1,
    "replicas": 2,
    "readyReplicas": 2,
    "selector": "inference.gaudi.dev/name=tiny",
    "capturedPercent": {"prompt": 62, "decode": 100},
    "warmup": {"percent": 81},
    "conditions": [
        {
            "type": "Ready",
            "status": "True",
            "reason": "Serving",
            "message": "All replicas serve.",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "observedGeneration": 1,
        }
    ],
}


Create = Callable[[Object], Object]


@pytest.fixture
def created(objects: Objects, namespace: str) -> Create:
    """Create an object and return it as stored."""
    return lambda manifest: objects.create(manifest, namespace)


def report(kubectl: Kubectl, status: Object) -> Object:
    """Write the status of `tiny` by server-side apply, as the operator does, and return the object."""
    manifest = {**gaudi_inference("tiny"), "spec": None, "status": status}
    del manifest["spec"]
    options = ("--server-side", "--subresource=status", "--field-manager=gaudi-operator", "-o", "json")
    stored: Object = json.loads(kubectl("apply", *options, "-f", "-", stdin=json.dumps(manifest)))
    return stored


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_accepted_and_stored_unchanged(created: Create, example: Path) -> None:
    manifest = yaml.safe_load(example.read_text())
    stored = created(manifest)
    assert merged(stored["spec"], manifest["spec"]) == stored["spec"]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_parses_the_same_after_it_was_stored(created: Create, example: Path) -> None:
    manifest = yaml.safe_load(example.read_text())
    stored = created(manifest)
    assert GaudiInferenceSpec.model_validate(stored["spec"]) == GaudiInferenceSpec.model_validate(manifest["spec"])


def test_server_defaults_equal_model_defaults(created: Create) -> None:
    manifest = minimal_gaudi_inference()
    stored = created(manifest)
    assert GaudiInferenceSpec.model_validate(stored["spec"]) == GaudiInferenceSpec.model_validate(manifest["spec"])


FILLED_IN_BY_THE_OPERATOR = {
    "engine": ["deviceMemoryUtilizationPercent"],
    "bucketing": ["strategy"],
    "warmup": ["graphMemoryPercent"],
    "readiness": ["onShortfall", "onRecompiles"],
    "rollout": ["onFailure"],
}


def test_server_sets_every_default_except_those_of_the_operator(created: Create) -> None:
    manifest = minimal_gaudi_inference()
    spec = GaudiInferenceSpec.model_validate(manifest["spec"])
    expected = spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    for section, names in FILLED_IN_BY_THE_OPERATOR.items():
        for name in names:
            del expected[section][name]
    del expected["rollout"]["canary"]
    assert created(manifest)["spec"] == without_empty(expected)


def without_empty(value: Object) -> Object:
    """Return `value` without empty lists and maps. An empty list or map contains no defaults of the server."""
    inner = {key: without_empty(each) if isinstance(each, dict) else each for key, each in value.items()}
    return {key: each for key, each in inner.items() if each not in ([], {})}


def test_partial_section_is_completed_with_defaults(created: Create) -> None:
    stored = created(gaudi_inference(rollout={"maxSurge": "25%"}))
    assert stored["spec"]["rollout"] == {
        "type": "SurgeThenInPlace",
        "maxSurge": "25%",
        "surgeTimeoutSeconds": 300,
        "obstacleDeadlineSeconds": 600,
        "paused": False,
        "revisionHistoryLimit": 5,
    }


def test_explicit_null_gets_the_default(created: Create) -> None:
    manifest = gaudi_inference()
    manifest["spec"]["replicas"] = None
    assert created(manifest)["spec"]["replicas"] == 1


def test_whole_number_is_accepted_as_quantity(created: Create) -> None:
    requests = {"cpu": 4, "memory": "8Gi"}
    stored = created(gaudi_inference(pod={"resources": {"requests": requests}}))
    assert stored["spec"]["pod"]["resources"] == {"requests": requests}


def test_settings_accept_variables_arguments_and_whole_numbers(created: Create) -> None:
    settings = {"VLLM_DEFRAG_THRESHOLD": 8, "--async-scheduling": "true"}
    stored = created(gaudi_inference(engine={"name": "vllm", "settings": settings}))
    assert stored["spec"]["engine"]["settings"] == settings


def test_fields_of_precision_parallelism_and_warmup_are_accepted(created: Create) -> None:
    sections = {
        "model": {"kvCacheDtype": "fp8_inc", "quantization": {"method": "inc", "configFile": "inc.json"}},
        "accelerator": {"generation": "gaudi3", "deviceMemory": None},
        "parallelism": {"tensor": 8, "expert": True},
        "engine": {"name": "vllm"},
        "warmup": {"timeBudgetSeconds": 4096},
    }
    stored = created(gaudi_inference(**sections))["spec"]
    assert stored["warmup"]["timeBudgetSeconds"] == 4096
    assert stored["parallelism"]["expert"] is True


def test_longest_name_is_accepted(created: Create) -> None:
    created(gaudi_inference("a" * 45))


def test_scale_subresource_writes_replicas_only(created: Create, kubectl: Kubectl) -> None:
    before = created(gaudi_inference("tiny"))
    kubectl("scale", "gi/tiny", "--replicas=3")
    after = json.loads(kubectl("get", "gi", "tiny", "-o", "json"))
    assert after["spec"] == before["spec"] | {"replicas": 3}
    assert after["metadata"]["generation"] == 2


def test_scale_subresource_refuses_values_outside_the_schema(created: Create, kubectl: Kubectl) -> None:
    created(gaudi_inference("tiny"))
    with pytest.raises(Exception, match="should be less than or equal to 1000"):
        kubectl("scale", "gi/tiny", "--replicas=1001")


def test_scale_subresource_shows_replicas_and_selector_of_the_status(
    created: Create, kubectl: Kubectl, namespace: str
) -> None:
    created(gaudi_inference("tiny"))
    report(kubectl, STATUS)
    path = f"/apis/inference.gaudi.dev/v1alpha1/namespaces/{namespace}/gaudiinferences/tiny/scale"
    scale = json.loads(kubectl("get", "--raw", path))
    assert scale["status"] == {"replicas": 2, "selector": "inference.gaudi.dev/name=tiny"}


def test_status_write_keeps_spec_and_generation(created: Create, kubectl: Kubectl) -> None:
    before = created(gaudi_inference("tiny"))
    after = report(kubectl, STATUS)
    assert (after["spec"], after["metadata"]["generation"]) == (before["spec"], 1)


def test_status_is_stored_as_reported(created: Create, kubectl: Kubectl) -> None:
    created(gaudi_inference("tiny"))
    assert report(kubectl, STATUS)["status"] == STATUS


def test_spec_write_keeps_the_status(created: Create, kubectl: Kubectl) -> None:
    created(gaudi_inference("tiny"))
    report(kubectl, STATUS)
    kubectl(
        "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(gaudi_inference("tiny", replicas=2))
    )
    assert json.loads(kubectl("get", "gi", "tiny", "-o", "json"))["status"] == STATUS


def test_condition_of_another_field_manager_is_kept(created: Create, kubectl: Kubectl) -> None:
    created(gaudi_inference("tiny"))
    theirs = {**STATUS["conditions"][0], "type": "example.com/Audited"}  # type: ignore[index]
    manifest = {**gaudi_inference("tiny"), "status": {"conditions": [theirs]}}
    del manifest["spec"]
    options = ("--server-side", "--subresource=status", "--field-manager=auditor")
    kubectl("apply", *options, "-f", "-", stdin=json.dumps(manifest))
    types = {condition["type"] for condition in report(kubectl, STATUS)["status"]["conditions"]}
    assert types == {"Ready", "example.com/Audited"}


def test_get_shows_the_printer_columns(created: Create, kubectl: Kubectl) -> None:
    created(gaudi_inference("tiny"))
    report(kubectl, STATUS)
    header, row = kubectl("get", "gi").strip().splitlines()
    assert header.split() == ["NAME", "ENGINE", "STATUS", "PROMPT%", "DECODE%", "WARMUP", "READY", "DESIRED", "AGE"]
    assert row.split()[:-1] == ["tiny", "vllm", "Serving", "62", "100", "81", "2", "1"]


def test_category_all_does_not_include_models(created: Create, kubectl: Kubectl) -> None:
    created(gaudi_inference("tiny"))
    assert "tiny" in kubectl("get", "inference")
    assert "tiny" not in kubectl("get", "all")


def test_wait_for_ready_returns_when_the_condition_is_true(created: Create, kubectl: Kubectl) -> None:
    created(gaudi_inference("tiny"))
    report(kubectl, STATUS)
    assert "condition met" in kubectl("wait", "--for=condition=Ready", "gi/tiny", "--timeout=5s")


def test_explain_shows_the_descriptions(kubectl: Kubectl) -> None:
    page = kubectl("explain", "gi.spec.warmup")
    assert "Preparation of a pod before serving, and memory for graphs." in page
    assert "graphMemoryPercent\t<integer>" in page
    assert "Between 0 and 99. Default: 10." in " ".join(page.split())


def test_explain_shows_the_enum_values(kubectl: Kubectl) -> None:
    assert "ENUM:\n    Surge\n    SurgeThenInPlace\n    InPlace\n\n" in kubectl("explain", "gi.spec.rollout.type")


def test_second_apply_keeps_the_resource_version(kubectl: Kubectl) -> None:
    manifest = json.dumps(yaml.safe_load(EXAMPLES[0].read_text()))
    first = json.loads(kubectl("apply", "--server-side", "-f", "-", "-o", "json", stdin=manifest))
    second = json.loads(kubectl("apply", "--server-side", "-f", "-", "-o", "json", stdin=manifest))
    assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]
