"""The document that `gaudi-plan` plans for: a GaudiInference or a RuntimeConfig.

`read_text` and `parse_document` read the document within size limits. `read_plan_document` converts the document to a
PlanDocument. manifest.py reads a GaudiInference.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from pydantic import ValidationError

from gaudi_operator.cli.plan.faults import describe_faults
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, Strategy
from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.contract.text import safe_excerpt
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.knobs.attention_settings import fused_attention, why_attention_impossible
from gaudi_runtime.knobs.render import why_settings_cannot_render
from gaudi_runtime.knobs.setting_errors import ignored_knobs
from gaudi_runtime.planning.coverage import plan_coverage
from gaudi_runtime.planning.planner import make_plan

if TYPE_CHECKING:
    from gaudi_operator.api.v1alpha1.status import PlanState
    from gaudi_operator.cli.plan.forecast_target import TargetBlocks
    from gaudi_operator.core.inference import Inference

MAX_DOCUMENT_BYTES = 1024 * 1024
MOST_NAMES = 10
KIND = "GaudiInference"
WANTED = f"a {KIND} or a RuntimeConfig"

Document = dict[str, Any]


def read_text(file: Path, max_bytes: int = MAX_DOCUMENT_BYTES) -> str:
    """Read a UTF-8 file of at most `max_bytes` bytes and return its text; "-" is standard input.

    Raises ConfigError if the file cannot be read, is too large or is not UTF-8.
    """
    if str(file) == "-":
        return _read_bounded(sys.stdin.buffer, "standard input", max_bytes)
    try:
        with file.open("rb") as stream:
            return _read_bounded(stream, str(file), max_bytes)
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from error


def parse_document(text: str, name: str | None = None) -> Document:
    """Return the only document in `text` to plan for. If there are several GaudiInferences, `name` selects one.

    Raises ConfigError if no document or more than one matches, or if the text contains no mapping.
    """
    documents = [item for document in _parse_documents(text) for item in _unpack_list(document)]
    matches = [item for item in documents if item.get("kind", KIND) == KIND and name in (None, _document_name(item))]
    if len(matches) == 1:
        return matches[0]
    if matches:
        names = ", ".join(safe_excerpt(str(_document_name(document))) for document in matches[:MOST_NAMES])
        names += f" and {len(matches) - MOST_NAMES} more" if len(matches) > MOST_NAMES else ""
        raise ConfigError(f"the file has {len(matches)} documents ({names}). Choose one with --name")
    if name is not None:
        raise ConfigError(f"there is no {KIND} called {safe_excerpt(name)} in the document")
    if documents:
        raise ConfigError(f"kind {safe_excerpt(repr(documents[0]['kind']))} is not supported; give {WANTED}")
    raise ConfigError(f"the document is {'not a mapping' if text.strip() else 'empty'}; give {WANTED}")


def _read_bounded(stream: BinaryIO, source_name: str, max_bytes: int) -> str:
    # Read at most one byte more than the limit. The additional byte shows that a file is too large, even if the file is
    # an endless device or pipe.
    data = stream.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise ConfigError(f"{source_name} is larger than {max_bytes} bytes")
    try:
        # The codec "utf-8-sig" skips a byte order mark, which some editors write.
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{source_name} is not UTF-8 text: {error.reason} at byte {error.start}") from error


def _parse_documents(text: str) -> list[object]:
    try:
        # Parse JSON with the JSON parser, because the YAML parser needs seconds for a bucket file of 1 MB.
        return [json.loads(text)] if text.lstrip().startswith("{") else _parse_yaml(text)
    except (ValueError, RecursionError) as error:
        problem = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConfigError(f"the document is neither JSON nor YAML: {problem}") from error


def _parse_yaml(text: str) -> list[object]:
    import yaml

    try:
        # Do not use PyYAML's faster C loader, because it crashes on a document of 100,000 brackets.
        return list(yaml.safe_load_all(text))
    except yaml.YAMLError as error:
        raise ValueError(str(error).replace("\n", " ")) from error


def _unpack_list(document: object) -> Iterator[Document]:
    """Yield the document itself, or its items if it is a List such as `kubectl get -o yaml` prints."""
    if not isinstance(document, dict):
        return
    items = document.get("items")
    if str(document.get("kind")).endswith("List") and isinstance(items, list):
        yield from (item for item in items if isinstance(item, dict))
    else:
        yield document


def _document_name(document: Document) -> object:
    metadata = document.get("metadata")
    return metadata.get("name") if isinstance(metadata, dict) else None


@dataclass(frozen=True)
class PlanDocument:
    """The document to plan for: the configuration of the runtime, and everything else in the document.

    `kv_blocks` is None if no device was measured. `estimated_blocks` is None if the number of blocks cannot be
    estimated. `inference` is None unless the document is a GaudiInference. `manifest_warnings` are about fields of this
    GaudiInference that the plan does not consider. `measured_plan` is the plan in the status of the GaudiInference if a
    pod measured the plan with this spec.
    """

    config: RuntimeConfig
    kv_blocks: int | None = None
    estimated_blocks: "TargetBlocks | None" = None
    inference: "Inference | None" = None
    manifest_warnings: tuple[str, ...] = ()
    measured_plan: "PlanState | None" = None

    @property
    def policy(self) -> BucketPolicy:
        """The bucket policy."""
        return self.config.bucketing

    @property
    def limits(self) -> Limits:
        """The limits of the server."""
        return self.config.limits

    @property
    def blocks(self) -> int:
        """The KV blocks to plan for: the given number, or the estimate, or enough for `max_num_seqs` full sequences."""
        if self.kv_blocks:
            return self.kv_blocks
        if self.estimated_blocks:
            return self.estimated_blocks.blocks
        return -(-self.limits.max_model_len // self.limits.block_size) * self.limits.max_num_seqs

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings about assumptions, and about settings that the engine ignores."""
        block_warnings = [] if self.kv_blocks else [self._blocks_warning()]
        return (*block_warnings, *self.manifest_warnings, *ignored_knobs(self.config))

    def plan(self) -> BucketPlan:
        """Return the bucket plan of a server with this policy. Raises RuntimeStartError or a subclass."""
        return make_plan(self.policy, self.limits, self.blocks)

    def plan_warnings(self, plan: BucketPlan) -> tuple[str, ...]:
        """Return warnings about assumptions, decisions of the planner, and possible batches without a bucket."""
        gaps = plan_coverage(plan, self.limits, self.blocks).describe_phases()
        reason = why_attention_impossible(plan.prompt, self.config, fused_attention(self.config, {}))
        return (*self.warnings, *plan.warnings, *gaps, *([reason] if reason else []))

    def _blocks_warning(self) -> str:
        basis = "assumed, enough for maxNumSeqs full sequences"
        if self.estimated_blocks:
            basis = f"estimated from {self.estimated_blocks.source}"
        return (
            f"{self.blocks} KV blocks are {basis}. The number of the device is known after its memory split. Set "
            "it with --kv-blocks"
        )

    def with_bucket_file(self, text: str) -> "PlanDocument":
        """Return the document with strategy File and the bucket file `text`."""
        policy = self.policy.model_copy(update={"strategy": Strategy.FILE, "file": text})
        return replace(self, config=self.config.model_copy(update={"bucketing": policy}))


def read_plan_document(document: Document, *, stored: bool = False) -> PlanDocument:
    """Convert a parsed document to a PlanDocument.

    If `stored` is True, the document comes from a cluster, so the API server has accepted it. Raises ConfigError.
    """
    try:
        return _from_manifest(document, stored=stored) if "kind" in document else _from_runtime_config(document)
    except ValidationError as error:
        raise ConfigError(describe_faults(error)) from error


def _from_manifest(document: Document, *, stored: bool) -> PlanDocument:
    from gaudi_operator.cli.plan.forecast_target import estimate_target_blocks, forecast_target
    from gaudi_operator.cli.plan.manifest import read_inference_manifest
    from gaudi_operator.core.admission.engine_settings import why_engine_settings_are_wrong
    from gaudi_operator.core.rendering.runtime_config import runtime_config

    inference, warnings = read_inference_manifest(document, stored=stored)
    reason = why_engine_settings_are_wrong(inference)
    if reason:
        raise ConfigError(reason.removesuffix("."))
    config, target = runtime_config(inference), forecast_target(inference.spec)
    return PlanDocument(
        config,
        estimated_blocks=estimate_target_blocks(config, target) if target else None,
        inference=inference,
        manifest_warnings=warnings,
        measured_plan=_measured_plan(document) if stored else None,
    )


def _measured_plan(document: Document) -> "PlanState | None":
    """Return the plan in the status if a pod measured the plan and the status describes the current spec."""
    from gaudi_operator.core.inference import read_inference_status

    status = read_inference_status(document)
    plan = status.plan if status.observed_generation == document["metadata"].get("generation") else None
    return plan if plan is not None and plan.warmup_seconds is not None else None


def _from_runtime_config(document: Document) -> PlanDocument:
    config = RuntimeConfig.model_validate(document)
    reason = why_settings_cannot_render(config.engine)
    if reason:
        raise ConfigError(reason)
    return PlanDocument(config)
