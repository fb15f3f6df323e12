"""Parsing of a resource: API names, unknown fields of a newer CRD, and defaults of the schema."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, ValidationError

from gaudi_operator.api.schema_keywords import PRESERVE
from gaudi_operator.api.v1alpha1.resource import GaudiInference
from gaudi_operator.api.v1alpha1.rollout import Rollout
from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.core.rendering.runtime_config import runtime_config_bucket_policy
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits
from gaudi_runtime.contract.config import plan_hash
from tests.support.builders import gaudi_inference, minimal_gaudi_inference
from tests.support.examples import EXAMPLES
from tests.unit.operator.api.schema_nodes import SPEC


def models(model: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """Return `model` and all models of its fields, by name."""
    found = {model.__qualname__: model}
    for field in model.model_fields.values():
        for inner in inner_models(field.annotation):
            found |= models(inner)
    return found


def inner_models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models inside a type, at any depth."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from inner_models(argument)


def with_unknown_fields(value: Any) -> Any:
    """Return `value` with an unknown field in every object."""
    if isinstance(value, dict):
        return {"ofTomorrow": 1} | {key: with_unknown_fields(each) for key, each in value.items()}
    return [with_unknown_fields(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("model", models(GaudiInference).values(), ids=models(GaudiInference))
def test_model_ignores_fields_of_a_newer_crd(model: type[BaseModel]) -> None:
    is_block = PRESERVE in dict(model.model_config.get("json_schema_extra") or {})
    assert model.model_config["extra"] == ("allow" if is_block else "ignore")


def test_unknown_fields_do_not_change_the_parsed_resource() -> None:
    known = gaudi_inference(bucketing={"strategy": "Linear", "prompt": {"query": {"min": 16}}}, rollout={"canary": {}})
    assert GaudiInference.model_validate(with_unknown_fields(known)) == GaudiInference.model_validate(known)


def test_bucket_policy_has_the_plan_hash_of_the_contract() -> None:
    blocks = {"decode": {"blocks": {"max": 64}}}
    spec = GaudiInferenceSpec.model_validate(gaudi_inference(bucketing={"strategy": "Linear", **blocks})["spec"])
    policy = BucketPolicy.model_validate({"strategy": "linear", **blocks})
    limits = Limits(max_model_len=256, max_num_seqs=4, max_num_batched_tokens=256)
    assert plan_hash(runtime_config_bucket_policy(spec), limits) == plan_hash(policy, limits)


def test_runtime_config_refuses_unknown_fields() -> None:
    with pytest.raises(ValidationError, match="stratgy"):
        BucketPolicy.model_validate({"stratgy": "linear"})


def test_missing_section_equals_an_empty_one() -> None:
    spec = minimal_gaudi_inference()["spec"]
    sections: dict[str, dict[str, object]] = {
        name: {} for name in SPEC["spec"]["properties"] if "default" in SPEC[f"spec.{name}"]
    }
    filled = {name: value for name, value in sections.items() if "properties" in SPEC[f"spec.{name}"]}
    assert len(filled) > 8
    assert GaudiInferenceSpec.model_validate(spec | filled) == GaudiInferenceSpec.model_validate(spec)


def test_schema_defaults_equal_those_of_the_models() -> None:
    spec = minimal_gaudi_inference()["spec"]
    defaults = {name: node["default"] for name, node in SPEC["spec"]["properties"].items() if "default" in node}
    assert GaudiInferenceSpec.model_validate(defaults | spec) == GaudiInferenceSpec.model_validate(spec)


def test_integer_is_accepted_as_a_quantity() -> None:
    spec = gaudi_inference(pod={"resources": {"requests": {"cpu": 4}}})["spec"]
    assert GaudiInferenceSpec.model_validate(spec).pod.resources.requests.cpu == "4"


@pytest.mark.parametrize("value", [2, "25%", "100%", 0])
def test_surge_is_a_number_or_percent(value: int | str) -> None:
    assert Rollout.model_validate({"maxSurge": value}).max_surge == value


@pytest.mark.parametrize("value", ["101%", "-1", "1.5", "half", -1, 1001])
def test_invalid_surge_is_refused(value: int | str) -> None:
    with pytest.raises(ValidationError):
        Rollout.model_validate({"maxSurge": value})


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_parsed(example: Path) -> None:
    GaudiInference.model_validate(yaml.safe_load(example.read_text()))


def test_example_has_comments() -> None:
    assert [path.name for path in EXAMPLES if not path.read_text().startswith("# ")] == []
