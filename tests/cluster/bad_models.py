"""Names, models and accelerators that the API server must refuse."""

from typing import Any

from tests.cluster.bad_object import CARD, VLLM, Bad


def source(**kinds: Any) -> dict[str, Any]:
    """Return a spec whose model source replaces the PVC of the valid object."""
    return {"model": {"source": {"persistentVolumeClaim": None, **kinds}}}


NAMES = (
    Bad("name_too_long", "at most 45 characters", name="a" * 46),
    Bad(
        "name_too_long_for_groups",
        "at most 37 characters",
        {"engine": {"name": "sim"}, "parallelism": {"tensor": 2, "nodes": 2}},
        name="a" * 38,
    ),
    Bad("name_starts_with_digit", "metadata.name must start", name="8b-model"),
    Bad("name_with_dot", "metadata.name must start", name="llama-3.1"),
)
MODELS = (
    Bad("model_missing", "spec.model: Required value", {"model": None}),
    Bad("source_missing", "spec.model.source: Required value", {"model": {"source": None}}),
    Bad("max_model_len_missing", "spec.model.maxModelLen: Required value", {"model": {"maxModelLen": None}}),
    Bad("max_model_len_zero", "spec.model.maxModelLen in body should be greater", {"model": {"maxModelLen": 0}}),
    Bad("no_source_named", "must name exactly one of huggingFace", source()),
    Bad(
        "two_sources_named",
        "must name exactly one of huggingFace",
        {"model": {"source": {"hostPath": {"path": "/models"}}}},
    ),
    Bad(
        "adapter_without_source",
        "spec.model.lora.adapters[0].source: Invalid value: ",
        {"model": {"lora": {"adapters": [{"name": "a", "source": {}}]}}, "engine": VLLM},
    ),
    Bad("host_path_relative", "an absolute path", source(hostPath={"path": "models"})),
    Bad("host_path_with_parent_folder", "an absolute path", source(hostPath={"path": "/models/../etc"})),
    Bad(
        "claim_path_absolute",
        "a relative path",
        {"model": {"source": {"persistentVolumeClaim": {"path": "/tiny"}}}},
    ),
    Bad(
        "claim_path_with_parent_folder",
        "a relative path",
        {"model": {"source": {"persistentVolumeClaim": {"path": "a/../../b"}}}},
    ),
    Bad("claim_name_missing", "claimName: Required value", source(persistentVolumeClaim={"claimName": None})),
    Bad("hub_repository_is_a_url", "huggingFace.repo in body should match", source(huggingFace={"repo": "https://x"})),
    Bad(
        "size_limit_of_a_shared_cache",
        "spec.model.cache.sizeLimit is only for a cache without existingClaim",
        {
            "model": {
                "source": {"persistentVolumeClaim": None, "huggingFace": {"repo": "a/b"}},
                "cache": {"existingClaim": "shared", "sizeLimit": "1Gi"},
            }
        },
    ),
    Bad(
        "cache_of_a_mounted_model",
        "spec.model.cache is only for downloaded files",
        {"model": {"cache": {"existingClaim": "shared"}}},
    ),
    Bad("image_reference_with_space", "reference in body should match", source(ociImage={"reference": "a b"})),
    Bad("dtype_unknown", 'Unsupported value: "int4": supported values: "auto"', {"model": {"dtype": "int4"}}),
    Bad("served_names_repeated", "servedNames must be distinct", {"model": {"servedNames": ["a", "a"]}}),
    Bad(
        "served_names_too_many",
        "spec.model.servedNames: Too many: 17: must have at most 16 items",
        {"model": {"servedNames": [f"name-{i}" for i in range(17)]}},
    ),
    Bad(
        "inc_without_configuration",
        "spec.model.quantization.configFile is required",
        {"model": {"quantization": {"method": "inc"}}, "engine": VLLM},
    ),
    Bad(
        "kv_cache_without_scales",
        "spec.model.kvCacheDtype fp8_inc",
        {"model": {"kvCacheDtype": "fp8_inc", "quantization": {"method": "fp8"}}, "engine": VLLM},
    ),
)
VLLM_LIMITS = (
    Bad(
        "prompt_longer_than_a_step",
        "maxModelLen when chunkedPrefill is false",
        {"engine": {**VLLM, "chunkedPrefill": False, "maxNumBatchedTokens": 128}},
    ),
    Bad(
        "sequences_above_the_tokens_of_a_step",
        "spec.engine.maxNumSeqs must be at most",
        {"engine": {**VLLM, "maxNumSeqs": 257}},
    ),
    Bad(
        "inc_quantization_on_the_cpu",
        "spec.model.quantization.method inc needs a card",
        {"model": {"quantization": {"method": "inc", "configFile": "a.json"}}, "engine": VLLM},
    ),
    Bad(
        "adapter_named_as_the_model",
        "spec.model.lora.adapters and servedNames",
        {
            "model": {
                "servedNames": ["a"],
                "lora": {"adapters": [{"name": "a", "source": {"hostPath": {"path": "/a"}}}]},
            },
            "engine": VLLM,
        },
    ),
    Bad(
        "more_adapters_per_batch_than_adapters",
        "spec.model.lora.maxAdapters must be",
        {"model": {"lora": {"maxAdapters": 2}}, "engine": VLLM},
    ),
    Bad(
        "unsupported_adapter_rank",
        "spec.model.lora.maxRank must be 1, 8, 16, 32,",
        {"model": {"lora": {"maxRank": 24}}},
    ),
)
ACCELERATORS = (
    Bad("accelerator_missing", "spec.accelerator: Required value", {"accelerator": None}),
    Bad("generation_unknown", 'Unsupported value: "gaudi1"', {"accelerator": {"generation": "gaudi1"}}),
    Bad(
        "cpu_without_device_memory",
        "deviceMemory is required if generation is 'none'",
        {"accelerator": {"deviceMemory": None}},
    ),
    Bad(
        "card_with_device_memory",
        "deviceMemory is only for generation 'none'",
        {"accelerator": {"generation": "gaudi3"}},
    ),
    Bad(
        "claim_template_without_card",
        "resourceClaimTemplateName needs a card",
        {"accelerator": {"resourceClaimTemplateName": "gaudi"}},
    ),
    Bad("memory_with_wrong_unit", "deviceMemory in body should match", {"accelerator": {"deviceMemory": "512MB"}}),
    Bad(
        "more_ranks_than_cards_of_a_node",
        "more than 8 cards",
        {"accelerator": CARD, "parallelism": {"tensor": 16}, "engine": VLLM},
    ),
    Bad(
        "nodes_do_not_divide_ranks",
        "spec.parallelism.nodes must divide",
        {"accelerator": CARD, "parallelism": {"tensor": 8, "nodes": 3}, "engine": VLLM},
    ),
    Bad(
        "experts_on_one_card",
        "spec.parallelism.expert needs",
        {"accelerator": CARD, "parallelism": {"expert": True}, "engine": VLLM},
    ),
)
