"""A GaudiInference as a question: the RuntimeConfig that its pods would read.

No API server has looked at the manifest, so what the schema would refuse is refused here: unknown fields above all.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from gaudi_operator.api.v1alpha1.resource import API_VERSION
from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.core.resource import Identity, Inference
from gaudi_runtime.errors import ConfigError


def read_manifest(document: Mapping[str, Any]) -> Inference:
    """The resource. Raises ConfigError, or pydantic's ValidationError with places below spec."""
    version = document.get("apiVersion", API_VERSION)
    if version != API_VERSION:
        raise ConfigError(f"apiVersion {version!r} is not read; write {API_VERSION}")
    spec = document.get("spec", {})
    inference = Inference(_identity(document), GaudiInferenceSpec.model_validate(spec))
    written = inference.spec.model_dump(by_alias=True, exclude_unset=True)
    unknown = next(_unknown(spec, written, "spec"), None)
    if unknown:
        raise ConfigError(f"{unknown} is not a field of a GaudiInference; docs/reference.md lists them")
    return inference


def _identity(document: Mapping[str, Any]) -> Identity:
    metadata = document.get("metadata")
    known = metadata if isinstance(metadata, Mapping) else {}
    return Identity(
        name=str(known.get("name", "unnamed")),
        namespace=str(known.get("namespace", "default")),
        uid=str(known.get("uid", "")),
        generation=0,
        deleting=False,
        restarted_at=None,
    )


def _unknown(given: object, read: object, path: str) -> Iterator[str]:
    """Paths of what stands in the manifest and was not read: the models drop what they do not know."""
    if isinstance(given, Mapping) and isinstance(read, Mapping):
        for key, value in given.items():
            if key in read:
                yield from _unknown(value, read[key], f"{path}.{key}")
            else:
                yield f"{path}.{key}"
    elif isinstance(given, list) and isinstance(read, tuple):
        for number, (value, taken) in enumerate(zip(given, read, strict=True)):
            yield from _unknown(value, taken, f"{path}[{number}]")
