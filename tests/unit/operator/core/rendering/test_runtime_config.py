"""Values of the spec that reach the rendered RuntimeConfig."""

from typing import Any

import pytest

from gaudi_operator.core.rendering.pod_volumes import checkpoint_volume_folder
from gaudi_operator.core.rendering.runtime_config import runtime_config
from gaudi_operator.core.rollout.revision_choice import choose_desired_revision
from gaudi_runtime.contract.config import (
    AdapterConfig,
    ExecutionMode,
    HubRepositoryConfig,
    RuntimeConfig,
    SharedRecipesConfig,
    plan_hash,
)
from tests.support.builders import merged
from tests.unit.operator.core.resources import CARD, DEFAULTS, inference


def config(**overrides: Any) -> RuntimeConfig:
    return runtime_config(inference(**overrides))


def test_runtime_parses_the_rendered_configuration() -> None:
    revision = choose_desired_revision(inference(), (), DEFAULTS)
    assert RuntimeConfig.model_validate_json(revision.config) == config()


def test_plan_hash_equals_the_runtimes() -> None:
    revision = choose_desired_revision(
        inference(bucketing={"strategy": "Linear", "prompt": {"query": {"max": 64}}}), (), DEFAULTS
    )
    read = RuntimeConfig.model_validate_json(revision.config)
    annotations = revision.template["metadata"]["annotations"]
    assert annotations["inference.gaudi.dev/plan-hash"] == plan_hash(read.bucketing, read.limits)


def test_thresholds_are_not_in_the_configuration() -> None:
    assert config(readiness={"minCapturedPromptPercent": 1}) == config()


def test_served_name_defaults_to_the_resource_name() -> None:
    assert config().model.served_names == ("tiny",)
    assert config(model={"servedNames": ["a", "b"]}).model.served_names == ("a", "b")


@pytest.mark.parametrize(
    ("source", "folder"),
    [
        ({"persistentVolumeClaim": {"claimName": "models", "path": "./a/b"}}, "/models/a/b"),
        ({"persistentVolumeClaim": {"claimName": "models", "path": None}}, "/models"),
        ({"persistentVolumeClaim": None, "ociImage": {"reference": "model:1", "path": "tiny"}}, "/models/tiny"),
        ({"persistentVolumeClaim": None, "hostPath": {"path": "/data/tiny"}}, "/models"),
    ],
    ids=str,
)
def test_checkpoint_path_is_below_the_mount(source: dict[str, Any], folder: str) -> None:
    assert checkpoint_volume_folder(inference(model={"source": source}).spec.model.source) == folder


def test_configuration_has_the_repository_without_its_token() -> None:
    source = {"persistentVolumeClaim": None, "huggingFace": {"repo": "a/b", "revision": "v1"}}
    found = config(model={"source": source, "tokenSecretRef": {"name": "hub", "key": "token"}}).model
    assert (found.path, found.hub) == ("/fetched", HubRepositoryConfig(repo="a/b", revision="v1"))


def test_hub_adapter_has_its_repository() -> None:
    adapters = [{"name": "sql", "source": {"huggingFace": {"repo": "a/b", "revision": "v1"}}}]
    (found,) = config(model={"lora": {"adapters": adapters}}).model.adapters
    assert found == AdapterConfig(name="sql", path="/fetched", hub=HubRepositoryConfig(repo="a/b", revision="v1"))


def test_adapter_limit_of_a_batch_is_copied() -> None:
    assert config(model={"lora": {"maxAdapters": 2}}).model.max_adapters_per_batch == 2


def test_dynamic_quantization_needs_no_config_file() -> None:
    found = config(model={"quantization": {"method": "fp8"}}).model.quantization
    assert found
    assert found.config_file is None


def test_size_limit_of_the_local_folder_is_in_bytes() -> None:
    source = {"persistentVolumeClaim": None, "huggingFace": {"repo": "a/b"}}
    limited = config(model={"source": source, "cache": {"sizeLimit": "2Ki"}})
    assert limited.model.fetch_limit_bytes == 2048
    assert config(model={"source": source}).model.fetch_limit_bytes is None


def test_default_execution_mode_is_torch_compile() -> None:
    assert config().engine.execution_mode is ExecutionMode.TORCH_COMPILE
    assert config(accelerator=CARD).engine.execution_mode is ExecutionMode.TORCH_COMPILE
    assert config(engine={"executionMode": "Eager"}).engine.execution_mode is ExecutionMode.EAGER


def test_device_depends_on_the_generation() -> None:
    assert (config().engine.device, config().engine.device_memory_bytes) == ("cpu", 512 * 2**20)
    assert (config(accelerator=CARD).engine.device, config(accelerator=CARD).engine.device_memory_bytes) == (
        "hpu",
        None,
    )


def test_nodes_and_arguments_are_copied() -> None:
    engine = {"name": "vllm", "extraArgs": ["--seed=1"]}
    found = config(engine=engine, parallelism={"tensor": 2, "nodes": 2})
    assert found.parallelism.nodes == 2
    assert found.engine.extra_args == ("--seed=1",)


def test_prompt_batch_defaults_to_the_longest_prompt() -> None:
    assert config().limits.max_num_batched_tokens == 256
    assert config(engine={"maxNumBatchedTokens": 128}).limits.max_num_batched_tokens == 128


def test_simulation_is_copied() -> None:
    script = {"compileSeconds": "0.5"}
    assert config(engine={"name": "sim", "settings": script}).engine.sim_script == script


def test_serving_limits_are_copied() -> None:
    found = config(server={"maxQueuedRequests": 7}, pod={"drainSeconds": 8}, warmup={"stallTimeoutSeconds": 9}).serving
    assert (found.max_queued_requests, found.drain_seconds, found.stall_timeout_seconds) == (7, 8, 9)


def test_recipes_are_shared_only_with_a_recipe_cache() -> None:
    assert config().shared_recipes is None
    assert config(recipeCache={}).shared_recipes is not None
    assert config().recipe_cache_dir == "/cache/recipes"


def test_recipes_may_use_nine_tenths_of_the_pvc() -> None:
    cache = {"size": "10Gi", "maxAgeDays": 2, "ociImage": {"reference": "recipes:1", "path": "llama"}}
    assert config(recipeCache=cache).shared_recipes == SharedRecipesConfig(
        path="/recipes",
        seed="/recipe-image/llama",
        limit_bytes=9 * 1024**3,
        max_age_seconds=2 * 86_400,
        kept_revisions="/etc/gaudi-revisions/kept.json",
    )


def test_share_of_the_pvc_is_in_whole_bytes() -> None:
    shared = config(recipeCache={"size": "1Gi"}).shared_recipes
    assert shared is not None
    assert shared.limit_bytes == 966_367_641


def test_card_generation_is_set_for_recipes() -> None:
    assert (config().engine.card, config(accelerator=CARD, engine={"name": "vllm"}).engine.card) == (None, "gaudi3")


def test_certificate_folder_is_set_only_with_a_certificate() -> None:
    assert config().serving.tls_folder is None
    assert config(server={"tlsSecretName": "chat-tls"}).serving.tls_folder == "/etc/gaudi-tls"


@pytest.mark.parametrize(
    ("overrides", "splits"),
    [
        ({}, None),
        ({"engine": {"chunkedPrefill": True}}, True),
        ({"engine": {"maxNumBatchedTokens": 128}}, True),
        ({"engine": {"prefixCaching": True}}, None),
        ({"accelerator": {"generation": "none", "deviceMemory": "1Gi"}, "engine": {"chunkedPrefill": True}}, None),
    ],
)
def test_prompts_are_split_if_requested_or_longer_than_a_step(overrides: dict[str, Any], splits: bool | None) -> None:
    asked = merged({"engine": {"name": "vllm"}, "accelerator": CARD}, overrides)
    assert config(**asked).limits.splits_prompts is splits


@pytest.mark.parametrize(
    ("engine", "accelerator", "by_tokens"),
    [
        ({"name": "vllm", "maxNumPrefillSeqs": 4}, {"generation": "none", "deviceMemory": "1Gi"}, True),
        ({"name": "vllm", "maxNumPrefillSeqs": 4}, CARD, None),
        ({"name": "sim", "maxNumPrefillSeqs": 4}, {"generation": "none", "deviceMemory": "1Gi"}, None),
    ],
    ids=["vLLM on a CPU", "vLLM on a card", "simulation"],
)
def test_steps_of_vllm_on_a_cpu_are_planned_by_tokens(
    engine: dict[str, Any], accelerator: dict[str, Any], by_tokens: bool | None
) -> None:
    limits = config(engine=engine, accelerator=accelerator).limits
    assert (limits.steps_by_tokens, limits.max_num_prefill_seqs) == (by_tokens, 1 if by_tokens else 4)
