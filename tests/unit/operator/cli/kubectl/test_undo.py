"""`kubectl gaudi rollout undo`: the choice of the revision by number or name, and the patch of the spec."""

import json
from dataclasses import replace
from typing import Any

import pytest

from gaudi_operator.cli.kubectl.rollout_history import find_rollout_revision
from gaudi_operator.cli.kubectl.selected_resource import ResourceCommandError
from gaudi_operator.cli.kubectl.undo import (
    failure_before_undo,
    guarded_undo_patch,
    revision_before_undo,
    undo_patch,
    undo_target,
)
from gaudi_operator.core.inference import SpecUnreadable, read_inference
from gaudi_operator.core.names import RESTARTED_AT_ANNOTATION
from gaudi_operator.core.rollout.revision import Revision, revision_inputs, revision_name, serialize_revision_inputs
from tests.support.builders import Object, patched
from tests.unit.operator.cli.kubectl.kept import FAILURE, NEWER, revision, served_by
from tests.unit.operator.core.resources import CARD, resource

FIRST = revision("a", 1)
SECOND = revision("b", 2, **NEWER)
NOW, NOW_NEWER = served_by("a", "b"), served_by("a", "b", **NEWER)
"""Resources of which revisions a and b have served. The spec of the first asks for a, that of the second for b."""
PAUSED = resource(rollout={"paused": True})
RESTARTED = {RESTARTED_AT_ANNOTATION: "2026-08-01T12:00:00Z"}
RESOURCES = {
    "plain": resource(),
    "other model": resource(model={"maxModelLen": 512}),
    "no engine section": resource(engine=None, pod={"labels": {"team": "a"}}),
    "cards": resource(accelerator=CARD, warmup={"graphMemoryPercent": 50}),
    "stall timeout": resource(warmup={"stallTimeoutSeconds": 60}, readiness={"minCapturedPromptPercent": 50}),
    "restarted": resource(annotations={**RESTARTED, "example.com/s": "note"}),
    "only restarted": resource(annotations=RESTARTED),
    "settings": resource(engine={"settings": {"PT_HPU_COMPILE_THREAD_POOL_SIZE": "8"}}),
}


def inputs(manifest: Object) -> dict[str, Any]:
    return serialize_revision_inputs(revision_inputs(read_inference(manifest)))


@pytest.mark.parametrize("to", RESOURCES)
@pytest.mark.parametrize("now", RESOURCES)
def test_patched_spec_results_in_the_chosen_revision(now: str, to: str) -> None:
    stored = inputs(RESOURCES[to])
    restored = patched(RESOURCES[now], undo_patch(RESOURCES[now], stored))
    assert inputs(restored) == stored
    assert revision_name(revision_inputs(read_inference(restored))) == revision_name(
        revision_inputs(read_inference(RESOURCES[to]))
    )


def test_fields_outside_the_revision_are_kept() -> None:
    now = resource(
        replicas=5, readiness={"minCapturedPromptPercent": 50}, service={"port": 80}, engine={"blockSize": 8}
    )
    restored = patched(now, undo_patch(now, inputs(resource())))
    assert restored["spec"]["replicas"] == 5
    assert restored["spec"]["service"] == {"port": 80}
    assert restored["spec"]["readiness"]["minCapturedPromptPercent"] == 50


def test_field_unset_in_the_revision_is_removed() -> None:
    now = resource(warmup={"graphMemoryPercent": 50}, model={"maxModelLen": 512})
    patch = undo_patch(now, inputs(resource()))
    assert {"op": "remove", "path": "/spec/warmup"} in patch
    (model,) = [step["value"] for step in patch if step["path"] == "/spec/model"]
    assert model == resource()["spec"]["model"]


def test_section_with_equal_inputs_is_not_patched() -> None:
    now = resource(
        engine={"prefixCaching": False}, model={"maxModelLen": 512}, readiness={"minCapturedPromptPercent": 50}
    )
    assert [step["path"] for step in undo_patch(now, inputs(resource()))] == ["/spec/model"]


def test_patch_can_be_serialized_as_json() -> None:
    patch = undo_patch(resource(), inputs(resource(model={"servedNames": ["a"]})))
    assert patch
    assert json.loads(json.dumps(patch)) == patch


def test_revision_of_an_unknown_release_is_refused_with_a_message() -> None:
    with pytest.raises(SpecUnreadable, match="stored by another release"):
        undo_patch(resource(), {"model": {"from": "the future"}})


def test_foreign_annotation_is_kept() -> None:
    now = RESOURCES["restarted"]
    restored = patched(now, undo_patch(now, inputs(resource())))
    assert restored["metadata"]["annotations"] == {"example.com/s": "note"}


def test_patch_spells_enum_values_as_in_a_spec() -> None:
    (step,) = undo_patch(resource(), inputs(resource(bucketing={"strategy": "Linear"})))
    assert step == {"op": "add", "path": "/spec/bucketing", "value": {"strategy": "Linear"}}


def test_section_missing_from_the_stored_inputs_is_removed() -> None:
    stored = inputs(resource())
    del stored["warmup"]
    now = resource(warmup={"graphMemoryPercent": 50})
    assert "warmup" not in patched(now, undo_patch(now, stored))["spec"]


def test_undo_restores_the_revision_before_the_desired_one() -> None:
    assert revision_before_undo(NOW_NEWER, (SECOND, FIRST)) is FIRST


@pytest.mark.parametrize(("asked", "found"), [(None, FIRST), ("0", FIRST), ("2", SECOND)])
def test_undo_to_0_equals_undo_without_a_revision(asked: str | None, found: Revision) -> None:
    assert undo_target(NOW_NEWER, (SECOND, FIRST), asked) is found


def test_second_undo_reverts_the_first() -> None:
    again = revision("a", 3)
    assert revision_before_undo(NOW, (again, SECOND)) is SECOND


def test_undo_after_a_rollback_chooses_the_running_revision() -> None:
    runs, failed = revision("a", 3), revision("b", 2, FAILURE, **NEWER)
    assert revision_before_undo(NOW_NEWER, (runs, failed)) is runs


def test_undo_skips_failed_revisions() -> None:
    failed = revision("b", 2, FAILURE, engine={"maxNumSeqs": 9})
    assert revision_before_undo(NOW_NEWER, (revision("c", 3, **NEWER), failed, FIRST)) is FIRST


def test_undo_skips_revisions_that_never_served() -> None:
    waited = revision("w", 2, engine={"maxNumSeqs": 9})
    assert revision_before_undo(NOW_NEWER, (revision("c", 3, **NEWER), waited, FIRST)) is FIRST


def test_undo_without_an_earlier_revision_is_refused() -> None:
    with pytest.raises(ResourceCommandError, match="no earlier revision"):
        revision_before_undo(NOW, (FIRST,))


def test_undo_without_a_served_revision_names_the_others() -> None:
    failed = revision("b", 2, FAILURE, engine={"maxNumSeqs": 9})
    with pytest.raises(ResourceCommandError) as refused:
        revision_before_undo(NOW_NEWER, (revision("c", 3, **NEWER), failed, revision("w", 1)))
    assert str(refused.value) == (
        "no earlier revision served without a failure: revision 1 (w) is not recorded as served, revision 2 (b) "
        "failed (WarmupStalled). To restore one of them, use --to-revision"
    )


def test_warning_names_the_earlier_failure_of_a_revision() -> None:
    assert failure_before_undo(revision("b", 2, FAILURE)) == (
        "revision b failed before (WarmupStalled): No progress in pod tiny-b-x"
    )
    assert failure_before_undo(FIRST) is None


def test_undo_of_a_paused_rollout_is_refused() -> None:
    with pytest.raises(ResourceCommandError, match="undo would have no effect"):
        guarded_undo_patch(PAUSED, revision("b", 2, **NEWER))


def test_undo_patch_requires_an_unchanged_generation() -> None:
    test, *changes = guarded_undo_patch(resource(generation=4), revision("b", 2, **NEWER))
    assert test == {"op": "test", "path": "/metadata/generation", "value": 4}
    assert [change["path"] for change in changes] == ["/spec/engine"]


def test_undo_to_the_desired_revision_has_an_empty_patch() -> None:
    assert guarded_undo_patch(resource(**NEWER), revision("b", 2, **NEWER)) == []


def test_revision_is_found_by_its_number() -> None:
    assert find_rollout_revision((SECOND, FIRST), "1") is FIRST


def test_revision_name_has_precedence_over_a_number() -> None:
    digits = revision("1", 7)
    assert find_rollout_revision((digits, SECOND, FIRST), "1") is digits


def test_missing_revision_is_refused_with_a_list_of_kept_ones() -> None:
    with pytest.raises(ResourceCommandError, match=r"revision 9 is not kept: choose one of 1 \(a\), 2 \(b\)"):
        find_rollout_revision((SECOND, FIRST), "9")


def test_former_number_is_refused_with_the_current_number() -> None:
    again = replace(FIRST, number=3, former_numbers=(1,))
    with pytest.raises(ResourceCommandError) as refused:
        find_rollout_revision((again, SECOND), "1")
    assert str(refused.value) == (
        "revision 1 has run a second time and is now revision 3. Use 3, or the name a, which never changes"
    )
