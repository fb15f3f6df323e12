"""spec.model: which checkpoint is served, and from where."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from gaudi_operator.api.base import (
    AbsolutePath,
    ApiModel,
    ImageReference,
    ObjectName,
    Quantity,
    RelativePath,
    Rule,
    SecretKey,
    ShortText,
    list_map,
    validated_by,
)
from gaudi_runtime.contract import config as contract
from gaudi_runtime.contract.bucketing import Tokens
from gaudi_runtime.contract.config import (
    AdapterName,
    AdapterRank,
    Adapters,
    Dtype,
    KvCacheDtype,
    QuantizationMethod,
)

Repository = Annotated[
    str, StringConstraints(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9][-A-Za-z0-9_.]*(/[-A-Za-z0-9_.]+)?$")
]


class HuggingFaceSource(ApiModel):
    """A repository of the Hugging Face hub."""

    repo: Repository = Field(description="Repository, for example meta-llama/Llama-3.1-8B-Instruct.")
    revision: ShortText = Field("main", description="Branch, tag or commit; pin a commit to make restarts repeatable.")
    token_secret_ref: SecretKey | None = Field(None, description="Secret that holds the access token.")


class ClaimSource(ApiModel):
    """A folder on a PersistentVolumeClaim in the same namespace."""

    claim_name: ObjectName = Field(description="Name of the PersistentVolumeClaim.")
    path: RelativePath = Field(".", description="Folder of the checkpoint inside the volume.")


class HostPathSource(ApiModel):
    """A folder on the node; only where the operator was installed with hostPath allowed."""

    path: AbsolutePath = Field(description="Absolute folder of the checkpoint on every node that may run a pod.")


class PullPolicy(StrEnum):
    """When an image is pulled."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class OciImageSource(ApiModel):
    """An OCI image whose root holds the checkpoint, mounted as an image volume."""

    reference: ImageReference = Field(description="Image reference; a digest makes restarts repeatable.")
    path: RelativePath = Field(".", description="Folder of the checkpoint inside the image.")
    pull_policy: PullPolicy = Field(PullPolicy.IF_NOT_PRESENT, description="When the image is pulled.")


class ModelSource(ApiModel):
    """Exactly one place that the checkpoint comes from."""

    model_config = validated_by(
        Rule(
            rule="[has(self.huggingFace), has(self.persistentVolumeClaim), has(self.hostPath),"
            " has(self.ociImage)].filter(x, x).size() == 1",
            message="spec.model.source must name exactly one of huggingFace, persistentVolumeClaim, hostPath or"
            " ociImage",
        ),
    )
    hugging_face: HuggingFaceSource | None = Field(None, description="A repository of the Hugging Face hub.")
    persistent_volume_claim: ClaimSource | None = Field(None, description="A folder on a PersistentVolumeClaim.")
    host_path: HostPathSource | None = Field(None, description="A folder on the node.")
    oci_image: OciImageSource | None = Field(None, description="An OCI image, mounted as a volume.")

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        """Asked again of what a CustomResourceDefinition of another release has let in: nothing else refuses it."""
        named = (self.hugging_face, self.persistent_volume_claim, self.host_path, self.oci_image)
        if sum(each is not None for each in named) != 1:
            raise ValueError("must name exactly one of huggingFace, persistentVolumeClaim, hostPath or ociImage")
        return self


class ClaimCache(ApiModel):
    """A PersistentVolumeClaim in the same namespace that keeps what was fetched."""

    claim_name: ObjectName = Field(
        description="Name of the PersistentVolumeClaim; ReadWriteMany where pods run on several nodes."
    )


class PodCache(ApiModel):
    """A folder on the node's disk that ends with its pod."""

    size_limit: Quantity | None = Field(
        None, description="Most that may be fetched into it; the space of the node's disk when left out."
    )


class FetchCache(ApiModel):
    """At most one place that fetched files are kept in."""

    model_config = validated_by(
        Rule(
            rule="!(has(self.persistentVolumeClaim) && has(self.emptyDir))",
            message="spec.model.cache must name one of persistentVolumeClaim and emptyDir",
        )
    )
    persistent_volume_claim: ClaimCache | None = Field(
        None, description="A PVC that pods share: the first fetches, the others wait, later ones need no hub."
    )
    empty_dir: PodCache | None = Field(None, description="A folder of each pod's own; the default.")


class Quantization(ApiModel):
    """Quantized execution; INC needs its configuration file, which names its measurements, in the model's folder."""

    model_config = validated_by(
        Rule(
            rule="self.method != 'inc' || has(self.configFile)",
            message="spec.model.quantization.configFile is needed when method is inc",
        )
    )
    method: QuantizationMethod = Field(
        description="inc converts by measurements at load; all others are the checkpoint's own format."
    )
    config_file: RelativePath | None = Field(
        None, description="Configuration file of the method, relative to the model's folder."
    )


class ItemsPerPrompt(contract.ItemsPerPrompt):
    """Most items of a prompt besides text; only with the vllm engine."""

    model_config = ConfigDict(extra="ignore")


class Adapter(ApiModel):
    """A LoRA adapter that requests choose by its name."""

    name: AdapterName = Field(description="Name that requests use as their model.")
    source: ModelSource = Field(description="Where the adapter comes from.")


class Model(ApiModel):
    """The checkpoint, and the names under which it is served."""

    model_config = validated_by(
        Rule(
            rule="!has(self.servedNames) || self.servedNames.all(name, self.servedNames.exists_one(n, n == name))",
            message="spec.model.servedNames must be distinct",
        ),
        Rule(
            rule="!has(self.adapters) || !has(self.servedNames) ||"
            " !self.adapters.exists(adapter, adapter.name in self.servedNames)",
            message="spec.model.adapters and servedNames must not share a name: requests choose by it",
        ),
        Rule(
            rule="self.maxAdapterRank in [1, 8, 16, 32, 64, 128, 256, 320, 512]",
            message="spec.model.maxAdapterRank must be 1, 8, 16, 32, 64, 128, 256, 320 or 512: take the next above the"
            " highest rank of the adapters",
        ),
        Rule(
            rule="!has(self.maxAdaptersPerBatch) || (has(self.adapters) &&"
            " self.maxAdaptersPerBatch <= self.adapters.size())",
            message="spec.model.maxAdaptersPerBatch must be at most the number of adapters",
        ),
        Rule(
            rule="self.kvCacheDtype == 'auto' || (has(self.quantization) && self.quantization.method == 'inc')",
            message="spec.model.kvCacheDtype fp8 and fp8PerToken need quantization.method inc, which has their scales",
        ),
        Rule(
            rule="!(has(self.cache) && (has(self.cache.persistentVolumeClaim) || has(self.cache.emptyDir))) ||"
            " has(self.source.huggingFace) ||"
            " (has(self.adapters) && self.adapters.exists(adapter, has(adapter.source.huggingFace)))",
            message="spec.model.cache keeps what is fetched, and nothing is: leave it out, or use source huggingFace",
        ),
    )
    source: ModelSource = Field(description="Where the checkpoint comes from.")
    cache: FetchCache = Field(FetchCache(), description="Where files are kept that are fetched from a hub.")
    served_names: Annotated[tuple[ShortText, ...], Field(max_length=16)] = Field(
        (), description="Names that requests may use; the resource's name when empty."
    )
    dtype: Dtype = Field(
        Dtype.AUTO, description="Number format of weights and activations; auto takes the checkpoint's own."
    )
    kv_cache_dtype: KvCacheDtype = Field(
        KvCacheDtype.AUTO,
        description="Number format of the KV cache: auto is that of the model, fp8 has fixed scales, fp8PerToken a"
        " scale per token.",
    )
    max_model_len: Tokens = Field(description="Longest sequence, prompt and answer together, in tokens.")
    quantization: Quantization | None = Field(None, description="Quantized execution.")
    adapters: Annotated[tuple[Adapter, ...], Field(max_length=32)] = Field(
        (),
        description="LoRA adapters.",
        json_schema_extra=list_map("name"),
    )
    max_adapter_rank: AdapterRank = Field(
        16, description="Highest rank of an adapter; memory is kept for it, and an adapter above it ends the start."
    )
    max_adapters_per_batch: Adapters | None = Field(
        None, description="Different adapters in one step; all of them when left out. Memory is kept for as many."
    )
    items_per_prompt: ItemsPerPrompt = Field(
        ItemsPerPrompt(),
        description="Most items of a prompt besides text; 0 turns a kind off. When left out 4 images, 1 audio clip and"
        " no video.",
    )
