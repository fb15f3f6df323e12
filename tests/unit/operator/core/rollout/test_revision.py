"""Rendering of a revision, and recognition of equal ControllerRevisions."""

import json
from dataclasses import replace
from typing import Any

import pytest

from gaudi_operator.core.names import REVISION_LABEL
from gaudi_operator.core.rendering.execution_mode import execution_mode
from gaudi_operator.core.rollout.controller_revision import stored_revisions
from gaudi_operator.core.rollout.desired_revision import desired_revision, missing_pin, with_stored_mode
from gaudi_operator.core.rollout.revision import Group, Revision
from gaudi_operator.core.text_formats import canonical_json
from gaudi_runtime.contract.config import ExecutionMode
from tests.unit.operator.core.resources import CARD, DEFAULTS, inference

OURS: dict[str, Any] = {"labels": {REVISION_LABEL: "r"}}


def template(path: str) -> dict[str, Any]:
    return {"spec": {"volumes": [{"name": "model", "hostPath": {"path": path}}]}}


def kept(number: object = 1, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {**OURS, **metadata}, "revision": number, "data": {"config": "{}"}}


def test_templates_of_a_group_are_those_of_the_revision() -> None:
    revision = Revision("r", 1, {}, template("/leader"), "", group=Group(2, template("/worker")))
    assert revision.templates == (template("/leader"), template("/worker"))


@pytest.mark.parametrize("rendered", [{}, {"spec": {}}, template("/models")], ids=["no spec", "no volumes", "others"])
def test_template_without_a_config_map_mount_names_none(rendered: dict[str, Any]) -> None:
    assert Revision("r", 1, {}, rendered, "").config_map is None


def test_configuration_omits_unset_fields() -> None:
    assert "null" not in desired_revision(inference(), (), DEFAULTS).config


def test_inputs_omit_unset_fields() -> None:
    assert "null" not in canonical_json(desired_revision(inference(), (), DEFAULTS).inputs)


def test_configuration_has_api_field_names() -> None:
    found = json.loads(desired_revision(inference(model={"maxModelLen": 512}), (), DEFAULTS).config)
    assert found["limits"]["maxModelLen"] == 512


def of_another_default(mode: str = "hpuGraphs") -> Revision:
    """Return a revision on a card from a time with another default mode: only the rendered parts contain the mode."""
    made = desired_revision(inference(accelerator=CARD), (), DEFAULTS)
    config = json.loads(made.config)
    config["engine"]["executionMode"] = mode
    return replace(made, config=json.dumps(config))


def test_other_default_mode_creates_no_revision() -> None:
    kept = of_another_default()
    assert desired_revision(inference(accelerator=CARD), (kept,), DEFAULTS) is kept


def test_explicit_current_mode_creates_no_revision() -> None:
    kept = of_another_default()
    named = inference(accelerator=CARD, engine={"executionMode": "HpuGraphs"})
    assert desired_revision(named, (kept,), DEFAULTS) is kept
    other = inference(accelerator=CARD, engine={"executionMode": "HpuGraphs", "maxNumSeqs": 2})
    assert desired_revision(other, (kept,), DEFAULTS) is not kept


@pytest.mark.parametrize("kept", [of_another_default("ofTheFuture"), replace(of_another_default(), config="no JSON")])
def test_explicit_other_mode_creates_a_revision(kept: Revision) -> None:
    named = inference(accelerator=CARD, engine={"executionMode": "HpuGraphs"})
    assert desired_revision(named, (kept,), DEFAULTS) is not kept


def test_pin_without_kept_revisions_must_be_removed() -> None:
    assert missing_pin(inference(rollout={"revision": "0123456789"}), ()) == (
        "spec.rollout.revision is 0123456789, which is not kept: remove the field to run the spec."
    )


def test_next_revision_uses_the_current_default() -> None:
    changed = inference(accelerator=CARD, engine={"maxNumSeqs": 2})
    found = desired_revision(with_stored_mode(changed, (of_another_default(),)), (of_another_default(),), DEFAULTS)
    assert json.loads(found.config)["engine"]["executionMode"] == "torchCompile"


def test_running_revision_keeps_its_mode() -> None:
    judged = with_stored_mode(inference(accelerator=CARD), (of_another_default(),))
    assert execution_mode(judged) is ExecutionMode.HPU_GRAPHS
    assert execution_mode(with_stored_mode(inference(accelerator=CARD), ())) is ExecutionMode.TORCH_COMPILE


def test_new_revision_has_the_next_number() -> None:
    assert desired_revision(inference(), stored_revisions([kept(7)]), DEFAULTS).number == 8


def test_newest_revision_comes_first() -> None:
    numbers = [revision.number for revision in stored_revisions([kept(1), kept(3), kept(2)])]
    assert numbers == [3, 2, 1]


def test_revision_without_data_is_empty() -> None:
    at = "2026-08-01T11:00:00Z"
    manifest = {"metadata": {**OURS, "creationTimestamp": at}, "revision": 1}
    assert stored_revisions([manifest]) == (Revision("r", 1, {}, {}, "", created=at, kept={}),)


def test_revision_without_a_number_is_the_oldest() -> None:
    manifest = kept()
    del manifest["revision"]
    assert [revision.number for revision in stored_revisions([manifest])] == [0]


@pytest.mark.parametrize(
    "manifest",
    [kept(labels={}), kept(labels=None), kept(-1), kept(2**62), kept(deletionTimestamp="2026-01-01T00:00:00Z")],
    ids=["no name", "no labels", "below zero", "beyond 64 bits", "being deleted"],
)
def test_malformed_data_is_not_a_revision(manifest: dict[str, Any]) -> None:
    assert stored_revisions([manifest]) == ()
