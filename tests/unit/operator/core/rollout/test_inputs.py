"""The stored inputs of a revision: their format, and inputs that other releases stored."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_operator.core.inference import SpecUnreadable, read_inference
from gaudi_operator.core.rollout.revision import (
    VERSION,
    are_same_revision_inputs,
    read_revision_inputs,
    revision_inputs,
    revision_name,
    serialize_revision_inputs,
)
from tests.support.builders import Object
from tests.unit.operator.core.resources import CARD, inputs

RECORDED = Path(__file__).parents[4] / "data" / "releases"
RELEASES = sorted(path.name for path in RECORDED.iterdir())
KINDS = ("ControllerRevision", "GaudiInference")


DESIRED = inputs()
KEPT = serialize_revision_inputs(DESIRED)


def test_inputs_stored_before_platform_fields_create_no_revision() -> None:
    stored = serialize_revision_inputs(inputs())
    before = {"labels", "annotations", "nodeSelector", "tolerations", "imagePullSecrets", "runAsUser", "drainSeconds"}
    stored["pod"] = {name: value for name, value in stored["pod"].items() if name in before} | {"resources": {}}
    assert are_same_revision_inputs(stored, inputs())


def test_unknown_stored_field_creates_no_revision() -> None:
    stored = serialize_revision_inputs(inputs())
    stored["engine"]["fromTheFuture"] = 7
    stored["speculation"] = {"draft": "tiny"}
    assert are_same_revision_inputs(stored, inputs())


@pytest.mark.parametrize("stored", [None, "", [], 3])
def test_stored_data_that_is_not_an_object_never_matches(stored: object) -> None:
    assert not are_same_revision_inputs(stored, inputs())


def test_inputs_of_a_newer_format_are_read_by_their_fields() -> None:
    assert are_same_revision_inputs(
        {**serialize_revision_inputs(inputs()), "version": VERSION + 1, "speculation": {"draft": "tiny"}}, inputs()
    )


@given(
    st.dictionaries(
        st.sampled_from(["engine", "warmup"]), st.recursive(st.integers() | st.text(), st.lists), min_size=1
    )
)
def test_malformed_section_never_matches(sections: dict[str, Any]) -> None:
    assert are_same_revision_inputs(KEPT, DESIRED)
    assert not are_same_revision_inputs({**KEPT, **sections}, DESIRED)


def test_inputs_of_an_unknown_release_are_refused_with_a_message() -> None:
    with pytest.raises(SpecUnreadable, match="stored by another release"):
        read_revision_inputs({"model": "of the future"})


def test_stored_inputs_round_trip() -> None:
    asked = inputs(bucketing={"strategy": "Linear"}, engine={"settings": {"OMP_NUM_THREADS": 2}}, accelerator=CARD)
    kept = json.loads(json.dumps(serialize_revision_inputs(asked)))
    assert (kept["bucketing"]["strategy"], kept["version"]) == ("Linear", VERSION)
    assert read_revision_inputs(kept) == asked


def recorded(release: str) -> dict[str, tuple[Object, Object]]:
    """Return the recorded resources of a release by name, each with the inputs of its current revision."""
    objects: list[Object] = json.loads((RECORDED / release / "objects.json").read_text())
    revisions, resources = ([each for each in objects if each["kind"] == kind] for kind in KINDS)
    stored = {each["metadata"]["name"]: each["data"]["inputs"] for each in revisions}
    found = {}
    for each in resources:
        name = each["metadata"]["name"]
        identity = {"namespace": "default", "uid": "u"}
        current = f"{name}-{each['status']['revision']['current']}"
        found[name] = {**each, "metadata": {**each["metadata"], **identity}}, stored[current]
    return found


RESOURCES = [
    pytest.param(*found, id=f"{name} of {release}") for release in RELEASES for name, found in recorded(release).items()
]


@pytest.mark.parametrize(("resource", "kept"), RESOURCES)
def test_recorded_resource_has_the_inputs_of_its_recorded_revision(resource: Object, kept: Object) -> None:
    assert are_same_revision_inputs(kept, revision_inputs(read_inference(resource)))


def test_name_is_ten_hex_digits_and_deterministic() -> None:
    assert len(revision_name(inputs())) == 10
    assert int(revision_name(inputs()), 16) >= 0
    assert revision_name(inputs()) == revision_name(inputs())
