"""The RuntimeConfig of a spec's pods, its ConfigMap, and the limits of its bucket plan.

The configuration says how pods execute the model: on a card or a CPU, in which mode, and whether they capture graphs.
The ConfigMap is immutable and its name contains a hash of its content. Therefore the configuration of a running pod
never changes.
"""

from posixpath import basename, join, normpath

from gaudi_operator.api.v1alpha1.accelerator import Accelerator, Generation
from gaudi_operator.api.v1alpha1.bucketing import Gaps
from gaudi_operator.api.v1alpha1.bucketing import OptimalSettings as Optimal
from gaudi_operator.api.v1alpha1.engine import Engine
from gaudi_operator.api.v1alpha1.model import Adapter, Model, ModelSource
from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.api.v1alpha1.warmup import RecipeCache, WarmupPolicy
from gaudi_operator.core.inference import Inference, InferenceIdentity, cache_on_inference
from gaudi_operator.core.quantities import parse_byte_quantity
from gaudi_operator.core.rendering.metadata import Object, child_with_metadata
from gaudi_operator.core.rendering.pod_volumes import adapter_volume_path, checkpoint_volume_folder, model_volume_folder
from gaudi_operator.core.text_formats import short_text_hash
from gaudi_runtime.contract.bucketing import (
    MOST_DRAFTS,
    BucketPolicy,
    DecodeRanges,
    Limits,
    OptimalSettings,
    PromptRanges,
)
from gaudi_runtime.contract.config import (
    AdapterConfig,
    EngineConfig,
    EngineName,
    ExecutionMode,
    HubRepositoryConfig,
    ItemsPerPrompt,
    ModelConfig,
    ParallelismConfig,
    QuantizationConfig,
    RuntimeConfig,
    ServingConfig,
    SharedRecipesConfig,
    WarmupConfig,
)
from gaudi_runtime.contract.ports import (
    CONFIG_PATH,
    KEPT_REVISIONS_PATH,
    RECIPE_PATH,
    SEED_RECIPES_PATH,
    SHARED_RECIPES_PATH,
    TLS_PATH,
)
from gaudi_runtime.contract.preparation import Preparation, preparation_of
from gaudi_runtime.knobs.fields import FieldSettings, split_settings_by_field
from gaudi_runtime.knobs.speculation import read_speculation


def runs_vllm_on_card(inference: Inference) -> bool:
    """Return True if pods execute the model in vLLM on a card, and False for a CPU or another engine."""
    spec = inference.spec
    return spec.engine.name is EngineName.VLLM and not runs_on_cpu(spec.accelerator)


def captures_graphs(inference: Inference) -> bool:
    """Return True if pods capture graphs. The execution mode and the warm-up settings of the spec decide this."""
    lacks_graphs = runtime_config_execution_mode(inference) in (ExecutionMode.LAZY, ExecutionMode.EAGER)
    return inference.spec.warmup.policy is WarmupPolicy.COMPLETE and not lacks_graphs


def runtime_config_preparation(inference: Inference) -> Preparation:
    """Return the step that follows the compile of each bucket in the pods of the spec."""
    return preparation_of(runtime_config_execution_mode(inference), captures=captures_graphs(inference))


def runtime_config_execution_mode(inference: Inference) -> ExecutionMode:
    """Return the execution mode of the spec or, if the spec sets none, of the stored revision of this spec.

    Without a stored revision, the mode is torch.compile.
    """
    # Prefer the mode of the revision. The default may have changed since the revision was created.
    return inference.spec.engine.execution_mode or inference.stored_mode or ExecutionMode.TORCH_COMPILE


def runs_on_cpu(accelerator: Accelerator) -> bool:
    """Return True if pods execute the model on a CPU, without a card."""
    return accelerator.generation is Generation.NONE


def _steps_by_tokens(spec: GaudiInferenceSpec) -> bool:
    """Return True if a graph is compiled for each number of tokens in a step, as vLLM does on a CPU."""
    return spec.engine.name is EngineName.VLLM and runs_on_cpu(spec.accelerator)


_DAY_SECONDS = 86_400


@cache_on_inference
def runtime_config(inference: Inference) -> RuntimeConfig:
    """Return the RuntimeConfig of the pods of this resource."""
    spec = inference.spec
    return RuntimeConfig(
        model=ModelConfig(
            path=checkpoint_volume_folder(spec.model.source),
            hub=_hub_repository(spec.model.source),
            fetch_limit_bytes=_fetch_limit(spec.model),
            served_names=spec.model.served_names or (inference.identity.name,),
            dtype=spec.model.dtype,
            kv_cache_dtype=spec.model.kv_cache_dtype,
            quantization=_quantization_config(spec.model),
            adapters=tuple(_adapter_config(index, adapter) for index, adapter in enumerate(spec.model.lora.adapters)),
            max_adapter_rank=spec.model.lora.max_rank,
            max_adapters_per_batch=spec.model.lora.max_adapters,
            items_per_prompt=ItemsPerPrompt.model_validate(spec.model.items_per_prompt.model_dump()),
        ),
        engine=_engine_config(spec, runtime_config_execution_mode(inference)),
        parallelism=ParallelismConfig(
            tensor=spec.parallelism.tensor,
            pipeline=spec.parallelism.pipeline,
            data=spec.parallelism.data,
            experts=spec.parallelism.expert,
            nodes=spec.parallelism.nodes,
        ),
        limits=runtime_config_limits(spec),
        bucketing=runtime_config_bucket_policy(spec),
        warmup=_warmup_config(spec),
        serving=ServingConfig(
            max_queued_requests=spec.server.max_queued_requests,
            tls_folder=TLS_PATH if spec.server.tls_secret_name else None,
            drain_seconds=spec.pod.drain_seconds,
            stall_timeout_seconds=spec.warmup.stall_timeout_seconds,
        ),
        recipe_cache_dir=RECIPE_PATH,
        shared_recipes=_shared_recipes(spec.recipe_cache),
    )


def runtime_config_map_name(owner: InferenceIdentity, config: str) -> str:
    """Return the name `<resource>-<hash of the content>`. `config` is a RuntimeConfig as JSON text."""
    return f"{owner.name}-{short_text_hash(config)}"


def runtime_config_map(owner: InferenceIdentity, config: str) -> Object:
    """Return the immutable ConfigMap with `config` (a RuntimeConfig as JSON text) under the key config.json.

    The ConfigMap has no revision label, because revisions that differ only in the pod template share it.
    """
    body: Object = {"immutable": True, "data": {basename(CONFIG_PATH): config}}
    return child_with_metadata("v1", "ConfigMap", runtime_config_map_name(owner, config), owner, body)


def runtime_config_bucket_policy(spec: GaudiInferenceSpec) -> BucketPolicy:
    """Return the bucket policy for the RuntimeConfig of a spec."""
    bucketing, pad_limits = spec.bucketing, runtime_config_settings(spec.engine).bucketing
    padding = {"pad_percent": bucketing.padding_aware.max_padding_percent} if bucketing.padding_aware else {}
    ranges = {
        phase: {
            dimension: {**value_range, **padding, **pad_limits.get(f"bucketing.{phase}.{dimension}", {})}
            for dimension, value_range in dimensions.items()
        }
        for phase, dimensions in bucketing.model_dump(include={"prompt", "decode"}, by_alias=True).items()
    }
    return BucketPolicy(
        strategy=bucketing.strategy,
        prompt=PromptRanges.model_validate(ranges["prompt"]),
        decode=DecodeRanges.model_validate(ranges["decode"]),
        file=bucketing.file,
        optimal=bucketing.optimal and _optimal_settings(bucketing.optimal),
    )


def _optimal_settings(optimal: Optimal) -> OptimalSettings:
    # The CEL rule of the field admits at least one byte.
    graph_bytes = max(1, parse_byte_quantity(optimal.graph_memory)) if optimal.graph_memory else None
    return OptimalSettings(**optimal.model_dump(exclude={"graph_memory"}), graph_bytes=graph_bytes)


def runtime_config_limits(spec: GaudiInferenceSpec) -> Limits:
    """Return the limits of the bucket plan for the RuntimeConfig of a spec."""
    engine, by_tokens = spec.engine, _steps_by_tokens(spec)
    return Limits(
        **runtime_config_settings(engine).limits,
        max_model_len=spec.model.max_model_len,
        max_num_seqs=engine.max_num_seqs,
        max_num_prefill_seqs=1 if by_tokens else engine.max_num_prefill_seqs,
        max_num_batched_tokens=engine.max_num_batched_tokens or spec.model.max_model_len,
        block_size=engine.block_size,
        prefix_caching=engine.prefix_caching,
        draft_tokens=_draft_tokens(spec),
        splits_prompts=(_splits_prompts(spec) and not by_tokens) or None,
        gapless=spec.bucketing.gaps is Gaps.REFUSE or None,
        steps_by_tokens=by_tokens or None,
    )


def runtime_config_settings(engine: Engine) -> FieldSettings:
    """Return the entries of engine.settings by the place where the RuntimeConfig has them."""
    return split_settings_by_field(engine.settings, is_simulated=engine.name is EngineName.SIM)


def _splits_prompts(spec: GaudiInferenceSpec) -> bool:
    """Return True if the engine may split a prompt into several steps."""
    # Do not split prompts if one step has room for the longest prompt. Splitting at least doubles the number of prompt
    # buckets.
    exceeds_step = (spec.engine.max_num_batched_tokens or spec.model.max_model_len) < spec.model.max_model_len
    if spec.engine.name is not EngineName.VLLM or spec.engine.chunked_prefill is None:
        return exceeds_step
    return spec.engine.chunked_prefill


def _draft_tokens(spec: GaudiInferenceSpec) -> int | None:
    speculation = read_speculation(spec.engine.settings) if spec.engine.name is EngineName.VLLM else None
    # Ignore a value out of range here. admission/engine_settings.py rejects it with a better message than the
    # validation of the RuntimeConfig.
    tokens = speculation.draft_tokens if speculation else None
    return tokens if tokens and 1 <= tokens <= MOST_DRAFTS else None


def _hub_repository(source: ModelSource) -> HubRepositoryConfig | None:
    repository = source.hugging_face
    return HubRepositoryConfig(repo=repository.repo, revision=repository.revision) if repository else None


def _adapter_config(index: int, adapter: Adapter) -> AdapterConfig:
    return AdapterConfig(
        name=adapter.name,
        path=model_volume_folder(adapter.source, adapter_volume_path(index)),
        hub=_hub_repository(adapter.source),
    )


def _fetch_limit(model: Model) -> int | None:
    """Return the size limit of the emptyDir in bytes, or None if it has no limit.

    The kubelet evicts a pod that exceeds the limit. The limit is part of the configuration, because a pod cannot read
    it.
    """
    size_limit = model.cache.size_limit
    return parse_byte_quantity(size_limit) if size_limit else None


def _shared_recipes(cache: RecipeCache | None) -> SharedRecipesConfig | None:
    """Return the settings of shared recipes. They leave a tenth of the volume to the file system."""
    if cache is None:
        return None
    return SharedRecipesConfig(
        path=SHARED_RECIPES_PATH,
        seed=normpath(join(SEED_RECIPES_PATH, cache.oci_image.path)) if cache.oci_image else None,
        # Use only 90 % of the volume. A file system needs space for its own journal, so writes fail before the volume
        # is full.
        limit_bytes=parse_byte_quantity(cache.size) * 9 // 10,
        max_age_seconds=cache.max_age_days * _DAY_SECONDS,
        kept_revisions=KEPT_REVISIONS_PATH,
    )


def _quantization_config(model: Model) -> QuantizationConfig | None:
    quantization = model.quantization
    if quantization is None:
        return None
    config_file = quantization.config_file
    return QuantizationConfig(
        method=quantization.method,
        config_file=normpath(join(checkpoint_volume_folder(model.source), config_file)) if config_file else None,
    )


def _engine_config(spec: GaudiInferenceSpec, mode: ExecutionMode) -> EngineConfig:
    memory, settings = spec.accelerator.device_memory, runtime_config_settings(spec.engine)
    return EngineConfig(
        name=spec.engine.name,
        execution_mode=mode,
        device="cpu" if runs_on_cpu(spec.accelerator) else "hpu",
        card=None if runs_on_cpu(spec.accelerator) else spec.accelerator.generation.value,
        # Admission rejects 0 (checks.py). Messages about the rejected spec still need a valid configuration, so use at
        # least 1.
        device_memory_bytes=max(1, parse_byte_quantity(memory)) if memory else None,
        device_memory_utilization=spec.engine.device_memory_utilization_percent / 100,
        chunked_prefill=_splits_prompts(spec),
        settings=settings.engine,
        extra_args=spec.engine.extra_args,
        sim_script=settings.sim_script,
    )


def _warmup_config(spec: GaudiInferenceSpec) -> WarmupConfig:
    return WarmupConfig(
        **runtime_config_settings(spec.engine).warmup,
        enabled=spec.warmup.policy is WarmupPolicy.COMPLETE,
        graph_memory_share=spec.warmup.graph_memory_percent / 100,
        time_budget_seconds=spec.warmup.time_budget_seconds,
    )
