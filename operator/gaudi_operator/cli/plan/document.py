"""The documents that `gaudi-plan` reads: their text, within bounds, and the form of a resource.

`parse` finds the one document that is meant. `read_manifest` makes a resource of a GaudiInference: no API server has
looked at it, so what the schema would refuse is refused here, unknown fields above all.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from gaudi_runtime.errors import ConfigError
from gaudi_runtime.units import quoted

if TYPE_CHECKING:
    from gaudi_operator.core.resource import Identity, Inference

MAX_DOCUMENT_BYTES = 1024 * 1024
MOST_NAMES = 10
KIND = "GaudiInference"
WANTED = f"give a {KIND}, a RuntimeConfig or the limits of a model"

Document = dict[str, Any]


def read_text(file: Path, limit: int = MAX_DOCUMENT_BYTES) -> str:
    """The UTF-8 text of a file of at most `limit` bytes; "-" is standard input. Raises ConfigError."""
    if str(file) == "-":
        return _bounded(sys.stdin.buffer, "standard input", limit)
    try:
        with file.open("rb") as stream:
            return _bounded(stream, str(file), limit)
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from error


def parse(text: str, name: str | None = None) -> Document:
    """The document to plan for. Of several manifests the only GaudiInference, or the one called `name`.

    Raises ConfigError when there is none, more than one, or no structure at all.
    """
    documents = [each for document in _documents(text) for each in _items(document)]
    found = [each for each in documents if each.get("kind", KIND) == KIND and name in (None, _name(each))]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(quoted(str(_name(each))) for each in found[:MOST_NAMES])
        names += f" and {len(found) - MOST_NAMES} more" if len(found) > MOST_NAMES else ""
        raise ConfigError(f"there are {len(found)} documents to plan for ({names}); choose one with --name")
    if name is not None:
        raise ConfigError(f"there is no {KIND} called {quoted(name)} in the document")
    if documents:
        raise ConfigError(f"kind {quoted(repr(documents[0]['kind']))} is not read; {WANTED}")
    raise ConfigError(f"the document is not a mapping; {WANTED}")


def _bounded(stream: BinaryIO, name: str, limit: int) -> str:
    data = stream.read(limit + 1)
    if len(data) > limit:
        raise ConfigError(f"{name} is larger than {limit} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name} is not UTF-8 text: {error.reason} at byte {error.start}") from error


def _documents(text: str) -> list[object]:
    try:
        return [json.loads(text)] if text.lstrip().startswith("{") else _yaml(text)
    except (ValueError, RecursionError) as error:
        problem = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConfigError(f"the document is neither JSON nor YAML: {problem}") from error


def _yaml(text: str) -> list[object]:
    import yaml

    try:
        # Not the loader in C, which is faster and dies of a hundred thousand brackets.
        return list(yaml.safe_load_all(text))
    except yaml.YAMLError as error:
        raise ValueError(str(error).replace("\n", " ")) from error


def _items(document: object) -> Iterator[Document]:
    """The document itself, or what a List such as `kubectl get -o yaml` holds."""
    if not isinstance(document, dict):
        return
    items = document.get("items")
    if str(document.get("kind")).endswith("List") and isinstance(items, list):
        yield from (item for item in items if isinstance(item, dict))
    else:
        yield document


def _name(document: Document) -> object:
    metadata = document.get("metadata")
    return metadata.get("name") if isinstance(metadata, dict) else None


def read_manifest(document: Mapping[str, Any]) -> "Inference":
    """The resource. Raises ConfigError, or pydantic's ValidationError with places below spec."""
    # Imported here and below: bare limits do not pay for the models of the resource.
    from gaudi_operator.api.v1alpha1.resource import API_VERSION
    from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
    from gaudi_operator.core.resource import Inference

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


def _identity(document: Mapping[str, Any]) -> "Identity":
    from gaudi_operator.core.resource import Identity

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
