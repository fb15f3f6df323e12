"""spec.model: the checkpoint that is served, and where it comes from."""

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
    SecretKey,
    ShortText,
)
from gaudi_operator.api.schema_keywords import SchemaRule, list_map_keywords, schema_config_with_rules
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
    """Model source: a repository of the Hugging Face hub."""

    repo: Repository = Field(description="Name of the repository, such as meta-llama/Llama-3.1-8B-Instruct.")
    revision: ShortText = Field(
        "main",
        description="Branch, tag or commit. Only a commit ensures that all pods have the same weights, also after a"
        " restart.",
    )


class ClaimSource(ApiModel):
    """Model source: a folder on a PersistentVolumeClaim in the same namespace."""

    claim_name: ObjectName = Field(description="Name of the PersistentVolumeClaim.")
    path: RelativePath = Field(".", description="Folder of the checkpoint, relative to the volume.")


class HostPathSource(ApiModel):
    """Model source: a folder on the node. The installation must allow the folder."""

    path: AbsolutePath = Field(description="Absolute path of the checkpoint on every node that may run a pod.")


class PullPolicy(StrEnum):
    """When the kubelet pulls an image, such as the OCI image of a model source."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class OciImageSource(ApiModel):
    """Model source: an OCI image that contains the files, mounted as an image volume."""

    reference: ImageReference = Field(
        description="Reference of the image. Only a digest ensures that all pods have the same files, also after a"
        " restart."
    )
    path: RelativePath = Field(".", description="Folder of the files, relative to the root of the image.")


class ModelSource(ApiModel):
    """Source of the files of a model. Exactly one source is set."""

    model_config = schema_config_with_rules(
        SchemaRule(
            rule="[has(self.huggingFace), has(self.persistentVolumeClaim), has(self.hostPath),"
            " has(self.ociImage)].filter(x, x).size() == 1",
            message="must name exactly one of huggingFace, persistentVolumeClaim, hostPath or ociImage",
        ),
    )
    hugging_face: HuggingFaceSource | None = Field(None, description="Repository of the Hugging Face hub.")
    persistent_volume_claim: ClaimSource | None = Field(None, description="Folder on a PersistentVolumeClaim.")
    host_path: HostPathSource | None = Field(None, description="Folder on the node.")
    oci_image: OciImageSource | None = Field(None, description="OCI image, mounted as a volume.")

    @model_validator(mode="after")
    def _check_one_source(self) -> Self:
        """Repeat the check of the schema rule, because the installed definition may belong to another release."""
        sources = (self.hugging_face, self.persistent_volume_claim, self.host_path, self.oci_image)
        if sum(source is not None for source in sources) != 1:
            raise ValueError("must name exactly one of huggingFace, persistentVolumeClaim, hostPath or ociImage")
        return self


class FetchCache(ApiModel):
    """Storage of a model's downloaded files: a PersistentVolumeClaim, or a folder that is deleted with its pod."""

    model_config = schema_config_with_rules(
        SchemaRule(
            rule="!(has(self.existingClaim) && has(self.sizeLimit))",
            message="spec.model.cache.sizeLimit is only for a cache without existingClaim: remove one of the fields",
        )
    )
    existing_claim: ObjectName | None = Field(
        None,
        description="PersistentVolumeClaim that pods share. The first pod downloads the files while other pods wait."
        " Later pods need no hub. Use access mode ReadWriteMany if pods run on several nodes.",
    )
    size_limit: Quantity | None = Field(
        None,
        description="Maximum size of the downloaded files of a pod without existingClaim. When left out: the free space"
        " of the node's disk.",
    )


class Quantization(ApiModel):
    """Quantized execution of a model.

    The method `inc` needs a configuration file in the model's folder. The configuration file names the measurements.
    """

    model_config = schema_config_with_rules(
        SchemaRule(
            rule="self.method != 'inc' || has(self.configFile)",
            message="spec.model.quantization.configFile is required when method is inc",
        )
    )
    method: QuantizationMethod = Field(
        description="Quantization method. inc uses measurements to convert weights when the model is loaded. The"
        " other methods are checkpoint formats."
    )
    config_file: RelativePath | None = Field(
        None, description="Configuration file of the method, relative to the model's folder. Required for method inc."
    )


class ItemsPerPrompt(contract.ItemsPerPrompt):
    """Maximum number of images, videos and audio clips that a model accepts per prompt. Only with the vllm engine."""

    model_config = ConfigDict(extra="ignore")


class Adapter(ApiModel):
    """LoRA adapter that requests select by name."""

    name: AdapterName = Field(description="Model name that requests to this adapter use.")
    source: ModelSource = Field(description="Source of the adapter. Exactly one source is set.")


class Lora(ApiModel):
    """LoRA adapters that are served next to the model, and the memory that pods reserve for them."""

    model_config = schema_config_with_rules(
        SchemaRule(
            rule="self.maxRank in [1, 8, 16, 32, 64, 128, 256, 320, 512]",
            message="spec.model.lora.maxRank must be 1, 8, 16, 32, 64, 128, 256, 320 or 512: use the first of these"
            " values that is not below the highest rank of the adapters",
        ),
        SchemaRule(
            rule="!has(self.maxAdapters) || (has(self.adapters) && self.maxAdapters <= self.adapters.size())",
            message="spec.model.lora.maxAdapters must be at most the number of adapters",
        ),
    )
    adapters: Annotated[tuple[Adapter, ...], Field(max_length=32)] = Field(
        (), description="LoRA adapters. Only with the vllm engine.", json_schema_extra=list_map_keywords("name")
    )
    max_rank: AdapterRank = Field(
        16,
        description="Maximum rank of an adapter: 1, 8, 16, 32, 64, 128, 256, 320 or 512. Pods reserve memory for this"
        " rank. A pod with an adapter of a higher rank does not start.",
    )
    max_adapters: Adapters | None = Field(
        None,
        description="Maximum number of different adapters in one step. When left out: all adapters. Pods reserve"
        " memory for this number.",
    )


class Model(ApiModel):
    """Checkpoint of the model, and the model names for requests."""

    model_config = schema_config_with_rules(
        SchemaRule(
            rule="!has(self.servedNames) || self.servedNames.all(name, self.servedNames.exists_one(n, n == name))",
            message="spec.model.servedNames must be distinct: remove the second entry",
        ),
        SchemaRule(
            rule="!has(self.lora.adapters) || !has(self.servedNames) ||"
            " !self.lora.adapters.exists(adapter, adapter.name in self.servedNames)",
            message="spec.model.lora.adapters and servedNames must not share a name, because requests select a model by"
            " its name: rename one",
        ),
        SchemaRule(
            rule="self.kvCacheDtype == 'auto' || (has(self.quantization) && self.quantization.method == 'inc')",
            message="spec.model.kvCacheDtype fp8_inc requires quantization.method inc, which provides its scales",
        ),
        SchemaRule(
            rule="!(has(self.cache) && (has(self.cache.existingClaim) || has(self.cache.sizeLimit))) ||"
            " has(self.source.huggingFace) ||"
            " (has(self.lora.adapters) && self.lora.adapters.exists(adapter, has(adapter.source.huggingFace)))",
            message="spec.model.cache is only for downloaded files: leave it out, or use source huggingFace",
        ),
    )
    source: ModelSource = Field(description="Source of the checkpoint. Exactly one source is set.")
    token_secret_ref: SecretKey | None = Field(
        None,
        description="Secret with the access token of the Hugging Face hub, for the model and its adapters. Required for"
        " gated repositories.",
    )
    cache: FetchCache = Field(FetchCache(), description="Storage of files that pods download from a hub.")
    served_names: Annotated[tuple[ShortText, ...], Field(max_length=16)] = Field(
        (), description="Model names that requests may use. When left out: the name of the resource."
    )
    dtype: Dtype = Field(
        Dtype.AUTO, description="Number format of weights and activations. auto selects the format of the checkpoint."
    )
    kv_cache_dtype: KvCacheDtype = Field(
        KvCacheDtype.AUTO,
        description="Number format of the KV cache. auto selects the format of the model. fp8_inc halves its size"
        " and requires quantization.method inc.",
    )
    max_model_len: Tokens = Field(description="Maximum number of tokens of a sequence, including prompt and answer.")
    quantization: Quantization | None = Field(
        None, description="Quantized execution. When left out, the checkpoint runs in its stored format."
    )
    lora: Lora = Field(Lora(), description="LoRA adapters that are served next to the model.")
    items_per_prompt: ItemsPerPrompt = Field(
        ItemsPerPrompt(),
        description="Maximum number of images, videos and audio clips of a prompt. 0 disables a kind. When left out:"
        " 4 images, 1 audio clip and no video.",
    )
