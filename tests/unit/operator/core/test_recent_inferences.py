"""The cache of parsed resources returns the same object until the resource changes."""

from typing import Any

from gaudi_operator.core.inference import Inference, InferenceCache
from gaudi_operator.core.names import RESTARTED_AT_ANNOTATION
from tests.unit.operator.core.resources import resource


def read(recent: InferenceCache, uid: str = "u", **overrides: Any) -> Inference:
    found = resource(**overrides)
    return recent.read({**found, "metadata": {**found["metadata"], "uid": uid}})


def test_unchanged_resource_is_the_same_object() -> None:
    recent = InferenceCache(2)
    assert read(recent) is read(recent)


def test_changed_spec_is_parsed_again() -> None:
    recent = InferenceCache(2)
    read(recent)
    assert read(recent, replicas=7).spec.replicas == 7


def test_restart_annotation_is_read_although_the_spec_is_unchanged() -> None:
    recent = InferenceCache(2)
    read(recent)
    now = {RESTARTED_AT_ANNOTATION: "2026-01-01T00:00:00Z"}
    assert read(recent, annotations=now).identity.restarted_at == now[RESTARTED_AT_ANNOTATION]


def test_resources_with_equal_specs_are_distinguished() -> None:
    recent = InferenceCache(2)
    assert read(recent, "u").identity.uid == "u"
    assert read(recent, "v").identity.uid == "v"


def test_number_of_entries_is_limited() -> None:
    recent = InferenceCache(2)
    first = read(recent, "a")
    read(recent, "b")
    assert read(recent, "a") is first
    read(recent, "c")
    assert read(recent, "a") is first
    read(recent, "b")
    read(recent, "c")
    assert read(recent, "a") is not first
