"""The reader of a GaudiInference from a file, with the validation of the API server.

`read_manifest` refuses unknown fields and values of a wrong type. `check_rules` refuses a manifest that breaks a CEL
rule of the schema, with the rule's own sentence.
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from gaudi_operator.api.schema import INT_OR_STRING, Schema, structural
from gaudi_operator.api.v1alpha1.resource import API_VERSION, GaudiInference
from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.cli.plan.faults import SpecRefused, misspelled
from gaudi_operator.core.resource import Identity, Inference
from gaudi_runtime.errors import ConfigError


def read_manifest(document: Mapping[str, Any]) -> Inference:
    """Return the resource. Raises ConfigError, or pydantic's ValidationError with paths below spec."""
    version = document.get("apiVersion", API_VERSION)
    if version != API_VERSION:
        raise ConfigError(f"apiVersion {version!r} is not read; write {API_VERSION}")
    spec = document.get("spec", {})
    inference = Inference(_identity(document), GaudiInferenceSpec.model_validate(spec))
    schema = _schema()["properties"]["spec"]
    written = inference.spec.model_dump(by_alias=True, exclude_unset=True)
    wrong = next(_unknown(schema, spec, written, "spec"), None) or next(_mistyped(schema, spec, "spec"), None)
    if wrong:
        raise ConfigError(wrong)
    return inference


def check_rules(document: Mapping[str, Any]) -> bool:
    """Raise SpecRefused if the document breaks CEL rules. Return False if no CEL runtime is installed."""
    try:
        from gaudi_operator.cli.plan.crd_rules import broken_rules
    except ModuleNotFoundError as error:
        if error.name != "cel_expr_python":
            raise
        # The runtime's images have no CEL runtime, because it takes 50 MB.
        return False
    if broken := broken_rules(_schema(), _identity(document).name, document.get("spec", {})):
        raise SpecRefused(broken)
    return True


@cache
def _schema() -> Schema:
    return structural(GaudiInference)


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


def _unknown(node: Schema, given: object, read: object, path: str) -> Iterator[str]:
    """Yield a sentence for each unknown field of the manifest, because the models drop unknown fields."""
    if isinstance(given, Mapping) and isinstance(read, Mapping):
        for key, value in given.items():
            if key in read:
                yield from _unknown(_below(node, key), value, read[key], f"{path}.{key}")
            else:
                meant = misspelled(key, node.get("properties", ()))
                yield (
                    f"{path}.{key} is not a field of a GaudiInference; {meant}`kubectl explain gi.spec --recursive` "
                    "lists them"
                )
    elif isinstance(given, list) and isinstance(read, tuple):
        for number, (value, taken) in enumerate(zip(given, read, strict=True)):
            yield from _unknown(node.get("items", {}), value, taken, f"{path}[{number}]")


def _below(node: Schema, key: object) -> Schema:
    found: Schema = node.get("properties", {}).get(key) or node.get("additionalProperties") or {}
    return found


def _mistyped(node: Schema, value: object, path: str) -> Iterator[str]:
    """Yield a sentence for each value that the models accept although its type breaks the schema."""
    if node.get("type") in ("integer", "number") and isinstance(value, str):
        yield f"{path} must be a number, not text: write {value} without quotes"
    elif isinstance(value, str) and INT_OR_STRING in node and not re.search(node.get("pattern", ""), value):
        instead = f"; write {value} without quotes for a number" if value.isdigit() else ""
        yield f'{path}: "{value}" does not match {node["pattern"]}{instead}'
    elif isinstance(value, list):
        yield from _repeated(node.get("x-kubernetes-list-map-keys", ()), value, path)
        for number, each in enumerate(value):
            yield from _mistyped(node.get("items", {}), each, f"{path}[{number}]")
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _mistyped(_below(node, key), each, f"{path}.{key}")


def _repeated(keys: list[str], entries: list[Any], path: str) -> Iterator[str]:
    seen: list[dict[str, Any]] = []
    for number, entry in enumerate(entries):
        key = {name: entry[name] for name in keys if name in entry}
        if key and key in seen:
            others = " and ".join(keys)
            yield f"{path}[{number}]: {json.dumps(key)} is there already; every entry needs another {others}"
        seen.append(key)
