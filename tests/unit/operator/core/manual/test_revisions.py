"""The table in docs/how-to/revisions.md: every row is tested, and every field of the spec has a row."""

from pathlib import Path
from typing import Any

import pytest

from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.core.names import RESTARTED_AT_ANNOTATION
from gaudi_operator.core.rollout.revision import (
    are_same_revision_inputs,
    revision_inputs,
    revision_name,
    serialize_revision_inputs,
)
from tests.unit.operator.core.resources import inference

PAGE = (Path(__file__).parents[5] / "docs" / "how-to" / "revisions.md").read_text()
TABLE = PAGE.partition("## What makes a revision")[2].partition("\n## ")[0]
ROWS = [tuple(cell.strip() for cell in line.split("|")[1:3]) for line in TABLE.splitlines() if line.startswith("| `")]

CHANGES: dict[str, dict[str, Any]] = {
    "className": {"className": "gold"},
    "model": {"model": {"maxModelLen": 512}},
    "accelerator": {"accelerator": {"deviceMemory": "1Gi"}},
    "parallelism": {"parallelism": {"tensor": 2}},
    "engine": {"engine": {"maxNumSeqs": 8}},
    "server": {"server": {"image": "runtime:2"}},
    "engine.env": {"engine": {"env": [{"name": "A", "value": "1"}]}},
    "bucketing": {"bucketing": {"strategy": "Linear"}},
    "warmup": {"warmup": {"graphMemoryPercent": 20}},
    "recipeCache": {"recipeCache": {}},
    "recipeCache.retentionPolicy": {"recipeCache": {"retentionPolicy": "Retain"}},
    "tracing": {"tracing": {"samplingPercent": 10}},
    "pod": {"pod": {"labels": {"team": "a"}}},
    "inference.gaudi.dev/restarted-at": {"annotations": {RESTARTED_AT_ANNOTATION: "2026-08-01"}},
    "readiness": {"readiness": {"minCapturedPromptPercent": 50, "onShortfall": "ServeAndWarn"}},
    "replicas": {"replicas": 5},
    "rollout": {"rollout": {"maxSurge": 2, "paused": True}},
    "autoscaling": {"autoscaling": {"maxReplicas": 4}},
    "service": {"service": {"port": 8080, "annotations": {"team": "a"}}},
    "networkAccess": {"networkAccess": {"from": "Unmanaged"}},
    "metadata.annotations": {"annotations": {"example.com/s": "annotation"}},
}


def names(cell: str) -> list[str]:
    return cell.split("`")[1::2]


def test_every_spec_field_has_a_row_and_a_test_change() -> None:
    rows = [name for field, _ in ROWS for name in names(field)]
    assert sorted(rows) == sorted(CHANGES)
    fields = {field.alias or name for name, field in GaudiInferenceSpec.model_fields.items()}
    assert fields <= set(rows)


@pytest.mark.parametrize(("field", "makes_one"), [(name, cell) for field, cell in ROWS for name in names(field)])
def test_row_agrees_with_the_effect_of_a_change(field: str, makes_one: str) -> None:
    base = {"recipeCache": {}} if field.startswith("recipeCache.") else {}
    before, after = revision_inputs(inference(**base)), revision_inputs(inference(**CHANGES[field]))
    changed = not are_same_revision_inputs(serialize_revision_inputs(before), after)
    assert makes_one.split(":")[0] == ("yes" if changed else "no")
    assert changed is (revision_name(before) != revision_name(after))
