"""Fields, simulations and published Services that are refused before a pod starts, with the exact messages."""

from dataclasses import replace
from typing import Any

import pytest

from gaudi_operator.core.admission.engine_settings import max_engine_kv_blocks
from gaudi_operator.core.admission.spec_checks import check_published_access, first_spec_violation
from gaudi_operator.core.installation import InstallationDefaults
from gaudi_runtime.errors import Problem
from tests.unit.operator.core.resources import CARD, DEFAULTS, inference


def refused(defaults: InstallationDefaults = DEFAULTS, **overrides: Any) -> Problem | None:
    return first_spec_violation(inference(**overrides), defaults)


def source(**kinds: Any) -> dict[str, Any]:
    return {"source": {"persistentVolumeClaim": None, **kinds}}


NOT_BUILT = "is not implemented in this release"
NOT_SIMULATED = "is not implemented for the sim engine. Remove the field, or use engine vllm."


def no_room(memory: str, least: str) -> str:
    return (
        f"spec.accelerator.deviceMemory {memory} is too small for a single KV block. Raise deviceMemory to {least}, "
        "or lower spec.engine.blockSize or spec.warmup.graphMemoryPercent."
    )


SENTENCES: dict[str, tuple[dict[str, Any], str, str]] = {
    "exabytes": (
        {"accelerator": {"deviceMemory": "1025Pi"}},
        "PlanImpossible",
        "spec.accelerator.deviceMemory 1025Pi is above 1Ei, but no device has that much memory. Lower the value.",
    ),
    "next_to_nothing_may_be_used": (
        {"engine": {"deviceMemoryUtilizationPercent": 1}, "accelerator": {"deviceMemory": "2Ki"}},
        "PlanImpossible",
        no_room("2Ki", "3556"),
    ),
    "nodes": (
        {"accelerator": CARD, "engine": {"name": "vllm"}, "parallelism": {"tensor": 16, "nodes": 2}},
        "NotBuilt",
        f"spec.parallelism.nodes above 1 for engine vllm on a card {NOT_BUILT}, because it is untested. Set nodes to "
        "1, or use accelerator.generation: none.",
    ),
    "several_engines_on_several_nodes": (
        {"engine": {"name": "vllm"}, "parallelism": {"data": 2, "nodes": 2}},
        "NotBuilt",
        f"spec.parallelism.data above 1 over several nodes with engine vllm {NOT_BUILT}. Use tensor or pipeline "
        "instead, or raise spec.replicas.",
    ),
    "quantization": (
        {"engine": {"name": "sim"}, "model": {"quantization": {"method": "fp8"}}},
        "NotBuilt",
        f"spec.model.quantization {NOT_SIMULATED}",
    ),
    "security_context_of_a_sidecar": (
        {"pod": {"sidecars": [{"name": "log", "image": "log:1", "securityContext": {}}]}},
        "NotBuilt",
        "securityContext in spec.pod.initContainers and spec.pod.sidecars is not allowed, because the operator sets "
        "the security context. Remove the field.",
    ),
    "adapters_that_nobody_simulates": (
        {
            "engine": {"name": "sim"},
            "model": {"lora": {"adapters": [{"name": "sql", "source": {"hostPath": {"path": "/a"}}}]}},
        },
        "NotBuilt",
        f"spec.model.lora.adapters {NOT_SIMULATED}",
    ),
    "embeddings_on_a_card": (
        {"accelerator": CARD, "engine": {"name": "vllm", "settings": {"--convert": "embed"}}},
        "SettingsWrong",
        "spec.engine.settings: --convert is 'embed', but this release plans and warms up no shapes of pooling models: "
        "give one of auto, none.",
    ),
    "embeddings_without_a_card": (
        {"engine": {"name": "vllm", "settings": {"--runner": "pooling"}}},
        "SettingsWrong",
        "spec.engine.settings: --runner is 'pooling', but this release plans and warms up no shapes of pooling models: "
        "give one of auto, generate.",
    ),
    "shared_memory_as_large_as_the_memory": (
        {"pod": {"resources": {"limits": {"memory": "1Gi"}}}},
        "MemoryTooSmall",
        "spec.pod.resources.limits.memory 1Gi must be above 1024Mi, the size of /dev/shm, which counts as memory of "
        "the container. Raise the limit, or lower spec.pod.sharedMemorySize.",
    ),
    "a_pipeline_on_cards": (
        {"accelerator": CARD, "engine": {"name": "vllm"}, "parallelism": {"pipeline": 2}},
        "NotBuilt",
        "spec.parallelism.pipeline above 1 for engine vllm on a card does not exist in vLLM's plugin for Gaudi. Use "
        "spec.parallelism.tensor instead.",
    ),
    "no_kv_block": (
        {"accelerator": {"deviceMemory": "32"}},
        "PlanImpossible",
        no_room("32", "40"),
    ),
    "no_kv_block_beside_the_graphs": (
        {"accelerator": {"deviceMemory": "128"}, "warmup": {"graphMemoryPercent": 90}},
        "PlanImpossible",
        no_room("128", "356"),
    ),
}


@pytest.mark.parametrize("case", SENTENCES)
def test_refusal_names_fault_and_remedy(case: str) -> None:
    overrides, reason, message = SENTENCES[case]
    assert refused(**overrides) == Problem(reason, message)


def test_simulation_is_refused_if_not_allowed() -> None:
    found = refused(replace(DEFAULTS, allow_simulation=False), engine={"name": "sim"})
    assert found is not None
    assert found.reason == "SimulationNotAllowed"
    assert refused(engine={"name": "sim"}) is None


@pytest.mark.parametrize(
    "guard",
    [
        {"service": {"type": "ClusterIP"}},
        {"service": {"type": "NodePort"}, "server": {"apiKeySecretRef": {"name": "a", "key": "b"}}},
        {"service": {"type": "NodePort"}, "networkAccess": {"from": "Clients", "clients": []}},
    ],
)
def test_protected_service_may_be_published(guard: dict[str, Any]) -> None:
    assert check_published_access(inference(**guard).spec) is None


@pytest.mark.parametrize("access", [{}, {"from": "Everyone"}, {"from": "Unmanaged"}])
@pytest.mark.parametrize("kind", ["NodePort", "LoadBalancer"])
def test_unprotected_service_may_not_be_published(kind: str, access: dict[str, Any]) -> None:
    assert check_published_access(inference(service={"type": kind}, networkAccess=access).spec) == Problem(
        "PublishedWithoutKey",
        "spec.service.type other than ClusterIP publishes the model to everyone who can reach the Service: set "
        "server.apiKeySecretRef, or set networkAccess.from to Clients and list the clients.",
    )


def test_vllm_needs_no_simulation_permission() -> None:
    assert refused(replace(DEFAULTS, allow_simulation=False), engine={"name": "vllm"}) is None


@pytest.mark.parametrize(
    ("missing", "spec", "kind"),
    [("hpu_image", {"accelerator": CARD}, "cards"), ("runtime_image", {}, "the CPU")],
)
def test_pods_without_an_image_are_refused(missing: str, spec: dict[str, Any], kind: str) -> None:
    assert refused(replace(DEFAULTS, **{missing: ""}), **spec) == Problem(
        "NoRuntimeImage",
        f"spec.server.image is left out, but this installation has no default image for {kind}. Set spec.server.image.",
    )


def test_spec_with_an_image_needs_no_default_image() -> None:
    assert refused(replace(DEFAULTS, hpu_image=""), accelerator=CARD, server={"image": "mine:1"}) is None


@pytest.mark.parametrize(
    "accepted",
    [
        {},
        {"engine": {"name": "sim"}},
        {"engine": {"name": "vllm"}},
        {"engine": {"name": "vllm", "executionMode": "Eager"}},
        {"engine": {"name": "vllm"}, "parallelism": {"data": 2}},
        {"engine": {"name": "vllm"}, "parallelism": {"tensor": 2, "nodes": 2}},
        {"engine": {"name": "sim"}, "parallelism": {"data": 2, "nodes": 2}},
        {"engine": {"name": "sim"}, "accelerator": {"deviceMemory": "1Ei"}},
        {
            "engine": {"name": "vllm"},
            "model": {"lora": {"adapters": [{"name": "sql", "source": {"hostPath": {"path": "/a"}}}]}},
        },
        {"accelerator": CARD, "engine": {"name": "vllm", "settings": {"--runner": "generate", "--convert": "none"}}},
        {"pod": {"resources": {"limits": {"memory": "2Gi"}}, "sharedMemorySize": "1Gi"}},
        {"pod": {"resources": {"requests": {"memory": "1Gi"}}}},
        {"accelerator": CARD, "engine": {"name": "vllm"}, "model": {"quantization": {"method": "fp8"}}},
        {"model": source(ociImage={"reference": "registry/model:1"})},
        {"accelerator": CARD},
        {"engine": {"executionMode": "Eager"}, "warmup": {"graphMemoryPercent": 0}},
        {"warmup": {"policy": "Skip", "graphMemoryPercent": 0}},
        {"warmup": {"graphMemoryPercent": 0}},
    ],
    ids=str,
)
def test_possible_spec_is_accepted(accepted: dict[str, Any]) -> None:
    assert refused(**accepted) is None


def test_advised_memory_is_accepted_and_one_byte_less_is_not() -> None:
    assert refused(accelerator={"deviceMemory": "40"}) is None
    assert refused(accelerator={"deviceMemory": "39"}) is not None


@pytest.mark.parametrize(("memory", "percent", "blocks"), [("2273", 50, 31), ("2276", 50, 32), ("512Mi", 50, 64)])
def test_kv_blocks_fit_next_to_graphs_and_hold_a_sequence(memory: str, percent: int, blocks: int) -> None:
    asked = inference(accelerator={"deviceMemory": memory}, warmup={"graphMemoryPercent": percent})
    assert max_engine_kv_blocks(asked.spec) == blocks
