"""The reader of GaudiInferences.

The reader reports values that the models refuse, and unknown fields. Only the API server evaluates the CEL rules and
all other rules of the schema: `kubectl apply --dry-run=server` refuses what these rules forbid.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Any, NamedTuple

from pydantic import ValidationError

from gaudi_operator.api.structural_schema import structural_schema
from gaudi_operator.api.v1alpha1.resource import API_VERSION
from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.cli.plan.faults import MOST_FAULTS, describe_faults
from gaudi_operator.cli.plan.unknown_fields import describe_unknown_fields
from gaudi_operator.core.inference import Inference, InferenceIdentity
from gaudi_runtime.errors import ConfigError


class ParsedManifest(NamedTuple):
    """A GaudiInference that was read from a manifest, and warnings about the manifest."""

    inference: Inference
    warnings: tuple[str, ...]


def read_inference_manifest(document: Mapping[str, Any], *, stored: bool = False) -> ParsedManifest:
    """Return the GaudiInference of a manifest.

    Raises ConfigError for unknown fields and for values that the models refuse. If `stored` is True, the API server has
    accepted the manifest. Its schema may be newer than the models of this release, so unknown fields are warnings.
    """
    version = document.get("apiVersion", API_VERSION)
    if version != API_VERSION:
        raise ConfigError(f"apiVersion {version!r} is not supported. Write {API_VERSION}")
    spec = document.get("spec", {})
    unknown_fields = tuple(islice(describe_unknown_fields(structural_schema(GaudiInferenceSpec), spec), MOST_FAULTS))
    if unknown_fields and not stored:
        raise ConfigError("; ".join(unknown_fields))
    try:
        inference = Inference(_parse_identity(document), GaudiInferenceSpec.model_validate(spec))
    except ValidationError as error:
        raise ConfigError(describe_faults(error, ("spec",))) from error
    return ParsedManifest(
        inference,
        tuple(
            f"{sentence.partition(' ')[0]} is unknown to this release of gaudi-plan, which ignores the field. Use the "
            "release of the cluster's operator"
            for sentence in unknown_fields
        ),
    )


def _parse_identity(document: Mapping[str, Any]) -> InferenceIdentity:
    metadata = document.get("metadata")
    fields = metadata if isinstance(metadata, Mapping) else {}
    return InferenceIdentity(
        name=str(fields.get("name", "unnamed")),
        namespace=str(fields.get("namespace", "default")),
        uid=str(fields.get("uid", "")),
        generation=0,
        deleting=False,
        restarted_at=None,
    )
