"""Class limits for stored revisions, whose inputs, templates and configuration may contradict each other."""

from dataclasses import replace
from typing import Any

import pytest

from gaudi_operator.core.rollout.desired_revision import desired_revision
from tests.unit.operator.core.gaudi_classes import judged
from tests.unit.operator.core.limit_cases import FOLDER, HUB
from tests.unit.operator.core.resources import CARD, DEFAULTS, inference

VLLM = {"name": "vllm"}
HARMLESS = desired_revision(inference(), (), DEFAULTS).inputs


@pytest.mark.parametrize(
    ("limits", "spec", "field"),
    [
        (
            {"maxCards": 15},
            {"engine": VLLM, "accelerator": CARD, "parallelism": {"tensor": 8}},
            "spec.replicas 2 needs 16 cards, but the maximum is 15 ",
        ),
        (
            {"maxCards": 15},
            {"engine": {"name": "sim"}, "accelerator": CARD, "parallelism": {"tensor": 8, "nodes": 2}},
            "spec.replicas 2 needs 16 cards, but the maximum is 15 ",
        ),
        (
            {"maxCards": 15},
            {"engine": VLLM, "accelerator": {**CARD, "resourceClaimTemplateName": "eight"}},
            "spec.accelerator.resourceClaimTemplateName eight ",
        ),
        (
            {"trustRemoteCode": False},
            {"engine": {**VLLM, "settings": {"--trust-remote-code": "true"}}},
            "spec.engine.settings --trust-remote-code ",
        ),
        (
            {"trustRemoteCode": False},
            {"engine": {"env": [{"name": "GC_KERNEL_PATH", "value": "/etc/code.so"}]}},
            "spec.engine.settings GC_KERNEL_PATH ",
        ),
        (
            {"extraArguments": []},
            {"engine": {**VLLM, "extraArgs": ["--of-a-plugin"]}},
            "spec.engine.extraArgs --of-a-plugin ",
        ),
        (
            {"maxStallTimeoutSeconds": 3600},
            {"warmup": {"stallTimeoutSeconds": 7200}},
            "spec.warmup.stallTimeoutSeconds 7200 ",
        ),
        ({"modelSources": ["PersistentVolumeClaim"]}, {"model": HUB}, "spec.model.source.huggingFace "),
        ({"modelSources": ["PersistentVolumeClaim"]}, {"model": FOLDER}, "spec.model.source.hostPath "),
        (
            {"modelSources": ["PersistentVolumeClaim"]},
            {
                "engine": VLLM,
                "model": {"lora": {"adapters": [{"name": "sql", "source": {"huggingFace": {"repo": "a/b"}}}]}},
            },
            "spec.model.lora.adapters.source.huggingFace ",
        ),
        (
            {"modelSources": ["PersistentVolumeClaim"]},
            {
                "engine": VLLM,
                "model": {"lora": {"adapters": [{"name": "sql", "source": {"hostPath": {"path": "/a"}}}]}},
            },
            "spec.model.lora.adapters.source.hostPath ",
        ),
        (
            {"environmentVariables": []},
            {"engine": {"env": [{"name": "HOMES", "value": "1"}]}},
            "spec.engine.env HOMES ",
        ),
        (
            {"environmentVariables": []},
            {"engine": {"env": [{"name": "OMP_NUM_THREADS_2", "value": "1"}]}},
            "spec.engine.env OMP_NUM_THREADS_2 ",
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_limits_apply_despite_forged_inputs(limits: dict[str, Any], spec: dict[str, Any], field: str) -> None:
    forged = replace(desired_revision(inference(**spec), (), DEFAULTS), inputs=HARMLESS)
    problem = judged(limits, forged, replicas=2)
    assert problem is not None
    assert problem.message.startswith(field)


@pytest.mark.parametrize(
    ("limits", "forged_inputs", "field"),
    [
        *(
            (
                {"trustRemoteCode": False},
                {"engine": {"settings": {"--trust-remote-code": value}}},
                "spec.engine.settings --trust-remote-code ",
            )
            for value in ("true", "", "falsy", 1)
        ),
        (
            {"maxStallTimeoutSeconds": 3600},
            {"warmup": {"stallTimeoutSeconds": 7200}},
            "spec.warmup.stallTimeoutSeconds 7200 ",
        ),
        (
            {"extraArguments": []},
            {"engine": {"extraArgs": ["--of-a-plugin"]}},
            "spec.engine.extraArgs --of-a-plugin ",
        ),
        ({"modelSources": ["PersistentVolumeClaim"]}, {"model": HUB}, "spec.model.source.huggingFace "),
        (
            {"modelSources": ["PersistentVolumeClaim"]},
            {"model": {"lora": {"adapters": [{"source": {"hostPath": {}}}]}}},
            "spec.model.lora.adapters.source.hostPath ",
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_limits_apply_to_the_inputs_of_a_revision(
    limits: dict[str, Any], forged_inputs: dict[str, Any], field: str
) -> None:
    revision = desired_revision(inference(), (), DEFAULTS)
    problem = judged(limits, replace(revision, inputs={**revision.inputs, **forged_inputs}))
    assert problem is not None
    assert problem.message.startswith(field)


@pytest.mark.parametrize(
    "forged_inputs",
    [
        {"engine": 7, "model": 7, "warmup": {"stallTimeoutSeconds": "7"}},
        {"engine": {"env": 7, "extraArgs": 7, "settings": 7}, "model": {"source": 7, "lora": 7}},
        {"engine": {"env": [7], "extraArgs": [7]}, "model": {"lora": {"adapters": [7]}}},
    ],
    ids=["sections", "fields", "items"],
)
def test_malformed_inputs_cause_no_exception(forged_inputs: dict[str, Any]) -> None:
    limits = {"environmentVariables": [], "extraArguments": [], "modelSources": ["PersistentVolumeClaim"]}
    revision = desired_revision(inference(), (), DEFAULTS)
    assert judged(limits, replace(revision, inputs=forged_inputs)) is None


@pytest.mark.parametrize("size", [0, 1])
def test_group_without_workers_has_the_cards_of_its_leader(size: int) -> None:
    spec = {"engine": {"name": "sim"}, "accelerator": CARD, "parallelism": {"tensor": 8, "nodes": 2}}
    forged = desired_revision(inference(**spec), (), DEFAULTS)
    assert forged.group is not None
    problem = judged({"maxCards": 7}, replace(forged, group=replace(forged.group, size=size)), replicas=2)
    assert problem is not None
    assert problem.message.startswith("spec.replicas 2 needs 8 cards, but the maximum is 7 ")


def test_unreadable_configuration_is_refused_under_a_class() -> None:
    forged = replace(desired_revision(inference(), (), DEFAULTS), config='{"engine": {"settings": 7}}')
    problem = judged({}, forged)
    assert problem is not None
    assert problem.message.startswith("the configuration of the stored revision cannot be read, ")


def test_simulation_omitted_from_forged_inputs_is_detected() -> None:
    forged = replace(desired_revision(inference(engine={"name": "sim"}), (), DEFAULTS), inputs=HARMLESS)
    assert forged.is_simulated
