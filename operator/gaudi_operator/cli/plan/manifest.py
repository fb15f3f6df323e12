"""The reader of GaudiInferences, which validates a manifest like the API server.

`read_manifest` reads a manifest that no API server has validated. `read_manifest` refuses wrong values, unknown fields
and broken CEL rules, with the messages of the rules. `read_stored_manifest` reads an object from a cluster. The
schema of the cluster may be newer than the models of this release.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

from pydantic import ValidationError

from gaudi_operator.api.schema import Schema, structural_schema
from gaudi_operator.api.v1alpha1.resource import API_VERSION, GaudiInference
from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.cli.plan.faults import MOST_FAULTS, SpecRefused, fault_sentences
from gaudi_operator.cli.plan.schema_values import UnknownField, schema_violations, unknown_fields
from gaudi_operator.core.resource import Identity, Inference
from gaudi_runtime.errors import ConfigError

UNCHECKED = (
    "the rules of the GaudiInference schema are not checked, because cel-expr-python is not installed. Install the "
    "extra `cli`"
)


class ParsedManifest(NamedTuple):
    """A GaudiInference that was read from a manifest, and warnings about the manifest."""

    inference: Inference
    warnings: tuple[str, ...]


def read_manifest(document: Mapping[str, Any]) -> ParsedManifest:
    """Return the GaudiInference of a manifest, validated like a new object.

    Raises SpecRefused if all faults are broken CEL rules. Otherwise raises ConfigError: wrong values come first, then
    the broken rules that the API server would also report. If a field is unknown, the API server reports no broken
    rules.
    """
    broken_rules = _broken_rules(document)
    inference = _parse_inference(document, broken_rules or ())
    spec = document.get("spec", {})
    if unknown_field := next(_unknown_spec_fields(inference, spec), None):
        raise ConfigError(
            f"{unknown_field.path} is not a field of a GaudiInference; {unknown_field.suggestion}"
            "`kubectl explain gi.spec --recursive` lists them"
        )
    violations = [*islice(schema_violations(_schema()["properties"]["spec"], spec, "spec"), MOST_FAULTS)]
    if violations or broken_rules:
        raise _manifest_error(violations, broken_rules or ())
    return ParsedManifest(inference, (UNCHECKED,) if broken_rules is None else ())


def read_stored_manifest(document: Mapping[str, Any]) -> ParsedManifest:
    """Return the GaudiInference of a stored manifest, which the API server has accepted. Raises ConfigError."""
    inference = _parse_inference(document)
    return ParsedManifest(
        inference,
        tuple(
            f"{field.path} is unknown to this release of gaudi-plan, which ignores the field. Use the release of the "
            "cluster's operator"
            for field in _unknown_spec_fields(inference, document.get("spec", {}))
        ),
    )


def _parse_inference(document: Mapping[str, Any], broken_rules: tuple[str, ...] = ()) -> Inference:
    version = document.get("apiVersion", API_VERSION)
    if version != API_VERSION:
        raise ConfigError(f"apiVersion {version!r} is not supported. Write {API_VERSION}")
    try:
        return Inference(_parse_identity(document), GaudiInferenceSpec.model_validate(document.get("spec", {})))
    except ValidationError as error:
        # If the document violates the schema, drop the errors of the Pydantic validators, because these validators
        # repeat rules of the schema.
        faults = [fault for fault in error.errors() if not (broken_rules and fault["type"] == "value_error")]
        raise _manifest_error(fault_sentences(faults, ("spec",)), broken_rules) from error


def _manifest_error(faults: Iterable[str], broken_rules: tuple[str, ...]) -> ConfigError:
    sentences = (*faults, *broken_rules)
    return SpecRefused(broken_rules) if sentences == broken_rules else ConfigError("; ".join(sentences))


def _unknown_spec_fields(inference: Inference, spec: object) -> Iterator[UnknownField]:
    parsed_spec = inference.spec.model_dump(by_alias=True, exclude_unset=True)
    return unknown_fields(_schema()["properties"]["spec"], spec, parsed_spec, "spec")


def _broken_rules(document: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the messages of the broken CEL rules; None if no CEL runtime is installed."""
    try:
        from gaudi_operator.cli.plan.crd_rules import broken_rules
    except ModuleNotFoundError as error:
        if error.name != "cel_expr_python":
            raise
        # Skip the rules if the CEL library is not installed. The runtime's images do not contain the library, because
        # the library takes 50 MB.
        return None
    return broken_rules(_schema(), _parse_identity(document).name, document.get("spec", {}))


@cache
def _schema() -> Schema:
    return structural_schema(GaudiInference)


def _parse_identity(document: Mapping[str, Any]) -> Identity:
    metadata = document.get("metadata")
    fields = metadata if isinstance(metadata, Mapping) else {}
    return Identity(
        name=str(fields.get("name", "unnamed")),
        namespace=str(fields.get("namespace", "default")),
        uid=str(fields.get("uid", "")),
        generation=0,
        deleting=False,
        restarted_at=None,
    )
