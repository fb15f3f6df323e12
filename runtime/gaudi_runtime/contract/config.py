"""RuntimeConfig: the whole configuration of a runtime process, one immutable ConfigMap per revision."""

import hashlib
import json
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from gaudi_runtime.contract.base import TolerantModel, WireModel
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits

Port = Annotated[int, Field(ge=1, le=65_535)]
Share = Annotated[float, Field(ge=0, le=1)]
Ranks = Annotated[int, Field(ge=1, le=512)]
Nodes = Annotated[int, Field(ge=1, le=64)]
AdapterName = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][-A-Za-z0-9_.:/]*$")]
AdapterRank = Annotated[int, Field(ge=1, le=512)]
Adapters = Annotated[int, Field(ge=1, le=32)]
ItemsOfPrompt = Annotated[int, Field(ge=0, le=999)]
GraphTokens = Annotated[int, Field(ge=1, le=16_777_216)]


class EngineName(StrEnum):
    """The engine that runs the model, in the contract's configuration."""

    VLLM = "vllm"
    SIM = "sim"


class ExecutionMode(StrEnum):
    """The execution mode in the configuration: HPU graphs, torch.compile, lazy recipes, or no compilation."""

    HPU_GRAPHS = "hpuGraphs"
    TORCH_COMPILE = "torchCompile"
    LAZY = "lazy"
    EAGER = "eager"


class Dtype(StrEnum):
    """The number format of weights and KV cache in the contract's configuration. `auto` is the checkpoint's format."""

    AUTO = "auto"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FLOAT32 = "float32"


class KvCacheDtype(StrEnum):
    """The KV cache format in the configuration, as vLLM names it: the model's format, or FP8 with scales of INC."""

    AUTO = "auto"
    FP8_INC = "fp8_inc"


class QuantizationMethod(StrEnum):
    """The method of weight quantization in the contract's configuration."""

    INC = "inc"
    FP8 = "fp8"
    AWQ = "awq"
    GPTQ = "gptq"
    COMPRESSED_TENSORS = "compressed-tensors"
    MODELOPT = "modelopt"
    MXFP4 = "mxfp4"


class CaptureOrder(StrEnum):
    """The bucket order in the contract's configuration (docs/internals/warmup.md, Compile order and Capture order)."""

    COVER_FIRST = "coverFirst"
    MIN_TOKENS = "minTokens"
    MAX_BS = "maxBs"
    LARGEST_FIRST = "largestFirst"


class QuantizationConfig(WireModel):
    """The contract's configuration of quantized execution.

    The engine chooses a value for each field that is not set.
    """

    method: QuantizationMethod
    config_file: str | None = Field(None, description="Configuration of the method inside the container.")


class HubRepositoryConfig(WireModel):
    """The contract's configuration of a Hugging Face hub repository (docs/how-to/model-sources.md).

    The access token and the address of the hub are in the environment variables HF_TOKEN and HF_ENDPOINT, not in
    fields.
    """

    repo: str
    revision: str = Field("main", description="Branch, tag or commit.")


class AdapterConfig(WireModel):
    """The contract's configuration of a LoRA adapter, which requests select by its name."""

    name: AdapterName
    path: str = Field(description="Folder of the adapter inside the container, or the one it is fetched into.")
    hub: HubRepositoryConfig | None = Field(
        None, description="The repository that is fetched into `path` before the load."
    )


class ItemsPerPrompt(WireModel):
    """The contract's limits of images, videos and other items in a prompt. 0 disables a kind of item.

    The defaults are in knobs/fields.py.
    """

    image: ItemsOfPrompt | None = Field(None, description="Maximum number of images of a prompt.")
    video: ItemsOfPrompt | None = Field(None, description="Maximum number of videos of a prompt.")
    audio: ItemsOfPrompt | None = Field(None, description="Maximum number of audio clips of a prompt.")


class ModelConfig(WireModel):
    """The contract's configuration of the checkpoint: a folder with config.json, weights and a tokenizer."""

    path: str = Field(description="Folder of the checkpoint inside the container, or the one it is fetched into.")
    hub: HubRepositoryConfig | None = Field(
        None, description="The repository that is fetched into `path` before the load."
    )
    fetch_limit_bytes: Annotated[int, Field(ge=0)] | None = Field(
        None, description="The most bytes in `path`, if less is allowed than the disk has."
    )
    served_names: tuple[str, ...] = Field(description="Names that requests may use; the first is the main one.")
    dtype: Dtype = Dtype.AUTO
    kv_cache_dtype: KvCacheDtype = KvCacheDtype.AUTO
    quantization: QuantizationConfig | None = None
    adapters: tuple[AdapterConfig, ...] = Field((), description="LoRA adapters.")
    max_adapter_rank: AdapterRank = Field(16, description="Highest rank of an adapter.")
    max_adapters_per_batch: Adapters | None = Field(
        None, description="Different adapters in one step; as many as there are when left out."
    )
    items_per_prompt: ItemsPerPrompt = ItemsPerPrompt()


class ParallelismConfig(WireModel):
    """The contract's configuration of the ranks of a replica: tensor * pipeline * data ranks, with one card each."""

    tensor: Ranks = 1
    pipeline: Ranks = 1
    data: Ranks = 1
    experts: bool = Field(False, description="Whether experts are spread over ranks instead of split.")
    nodes: Nodes = Field(1, description="Pods of the replica; above 1 they are a group (docs/how-to/several-nodes.md).")

    @property
    def rank_count(self) -> int:
        """The number of cards of the replica."""
        return self.tensor * self.pipeline * self.data


class EngineConfig(WireModel):
    """The contract's configuration of the engine and its execution."""

    name: EngineName
    execution_mode: ExecutionMode = ExecutionMode.TORCH_COMPILE
    device: Literal["cpu", "hpu"] = "cpu"
    card: Annotated[str, Field(max_length=64)] | None = Field(
        None, description="Generation of the card, such as gaudi3: recipes of another one cannot be used."
    )
    device_memory_bytes: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Memory budget where the device has no memory of its own (CPU), in bytes."
    )
    device_memory_utilization: Share = 0.9
    chunked_prefill: bool = Field(True, description="Whether long prompts are split over steps (vllm engine).")
    settings: dict[str, str] = Field(
        default_factory=dict, description="Knobs without a field of their own (docs/reference/knobs.md), by name."
    )
    extra_args: tuple[str, ...] = Field((), description="Further arguments of the vllm engine.")
    sim_script: dict[str, str | int | float] = Field(
        default_factory=dict, description="Card and faults of the sim engine."
    )


class WarmupConfig(WireModel):
    """The contract's configuration of warm-up and graph capture, before the model port opens."""

    enabled: bool = True
    graph_memory_share: Share = Field(0.1, description="Share of usable memory kept for graphs.")
    prompt_ratio: Share = Field(0.3, description="Share of the graph pool offered to prompt graphs first.")
    prompt_order: CaptureOrder = CaptureOrder.COVER_FIRST
    decode_order: CaptureOrder = CaptureOrder.COVER_FIRST
    max_graph_tokens: GraphTokens | None = Field(
        None, description="Prompts with more tokens, cached context included, run without a graph (vllm on a card)."
    )
    fail_on_cold_shapes: bool = Field(
        False,
        description="Whether a shape that was not warmed up is refused while serving: sim fails its request, vllm on a"
        " card (hpuGraphs, torchCompile) ends.",
    )
    time_budget_seconds: Annotated[int, Field(ge=1, le=604_800)] | None = Field(
        None,
        description="No bucket is begun after this time, except those of the covering set of coverFirst; the others are"
        " reported, and stay cold or without graph.",
    )


class ServingConfig(WireModel):
    """The contract's configuration of serving: ports and limits."""

    model_port: Port = 8000
    status_port: Port = 8001
    group_port: Port = Field(8002, description="Where the leader of a group of pods listens for the others.")
    max_queued_requests: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        256, description="Sequences that may wait for a place in a batch; one more is answered with 429."
    )
    tls_folder: Annotated[str, Field(max_length=1024)] | None = Field(
        None, description="Folder with tls.crt and tls.key; without it the model port speaks plain HTTP."
    )
    drain_seconds: Annotated[int, Field(ge=0, le=86_400)] = Field(
        30, description="How long running requests may take to finish after SIGTERM."
    )
    stall_timeout_seconds: Annotated[int, Field(ge=1, le=604_800)] = Field(
        1800, description="While starting, /livez fails when nothing has moved for this long."
    )


class SharedRecipesConfig(WireModel):
    """The contract's configuration of a shared recipe volume, which is read at start and written after warm-up.

    See docs/how-to/recipe-cache.md.
    """

    path: str = Field(description="Folder of the volume; nothing is compiled in it.")
    seed: str | None = Field(None, description="Folder of the same form that is only read, after `path`.")
    limit_bytes: Annotated[int, Field(ge=0)] = Field(description="The most bytes in `path`.")
    max_age_seconds: Annotated[int, Field(ge=1)] = Field(
        description="Recipes that no start has used for this time are removed, unless a running process uses them."
    )
    kept_revisions: str | None = Field(
        None,
        description="File with KeptRevisions. Recipes only of other revisions of the resource are removed; without "
        "the file no recipes are removed for this reason.",
    )


class RuntimeConfig(WireModel):
    """The complete runtime configuration of the contract, which `gaudi-runtime serve --config FILE` reads.

    Readiness thresholds are not included, because only the operator applies them. So a changed threshold creates no new
    revision.
    """

    version: Literal["v1"] = "v1"
    model: ModelConfig
    engine: EngineConfig
    parallelism: ParallelismConfig = ParallelismConfig()
    limits: Limits
    bucketing: BucketPolicy = BucketPolicy()
    warmup: WarmupConfig = WarmupConfig()
    serving: ServingConfig = ServingConfig()
    recipe_cache_dir: str | None = Field(
        None, description="Folder of compiled recipes and of the warm-up journal, which outlives the process."
    )
    shared_recipes: SharedRecipesConfig | None = Field(
        None, description="The volume where recipes outlive their pods; only with `recipe_cache_dir`."
    )

    @property
    def places(self) -> int:
        """The most sequences that run or wait. Each copy of the weights runs `limits.max_num_seqs` sequences."""
        return self.limits.max_num_seqs * self.parallelism.data + self.serving.max_queued_requests


def plan_hash(policy: BucketPolicy, limits: Limits) -> str:
    """Return the SHA-256 of a plan's inputs in the contract's configuration, as 64 hex digits.

    See docs/internals/architecture.md, Revisions.
    """
    # The hash covers inputs, not buckets, because the number of KV blocks is known only after the memory of a device is
    # split. So two pods of a revision may have different buckets but the same hash. Absent fields and the order of
    # fields do not change the hash. So an operator and a runtime of different releases compute the same hash as long as
    # no new optional field is used.
    inputs = {
        "bucketing": policy.model_dump(mode="json", by_alias=True, exclude_none=True),
        "limits": limits.model_dump(mode="json", by_alias=True, exclude_none=True),
    }
    text = json.dumps(inputs, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


ResourceId = Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z-]{1,64}$")]


class KeptRevisions(TolerantModel):
    """The revisions of one resource that can still run, from a file next to the contract's configuration."""

    resource: ResourceId = Field(description="The resource's uid: several may share a volume.")
    revisions: tuple[str, ...]
