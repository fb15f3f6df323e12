"""`gaudi-plan diff`: buckets, pods and recipes that a changed document replaces."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from gaudi_operator.cli.plan.app import app
from gaudi_operator.cli.plan.diff import compare_plans
from gaudi_operator.cli.plan.document import PlanDocument, read_plan_document
from gaudi_runtime.contract.report import BucketPhase
from tests.unit.operator.cli.plan.asked import BARE, INFERENCE, one_sentence

LIMITS = {key: value for key, value in BARE.items() if key != "env"}


def changed(**sections: dict[str, Any]) -> dict[str, Any]:
    spec = INFERENCE["spec"] | sections
    return INFERENCE | {"spec": spec | {"engine": {"chunkedPrefill": False, **spec["engine"]}}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def run(folder: Path, old: object, new: object, *arguments: str) -> Result:
    paths = []
    for name, document in (("old.json", old), ("new.json", new)):
        (folder / name).write_text(json.dumps(document))
        paths.append(str(folder / name))
    return CliRunner().invoke(app, ["diff", *paths, *arguments])


def answer(folder: Path, old: object, new: object) -> Any:
    return json.loads(run(folder, old, new, "-o", "json").stdout)


def test_longer_prompts_add_their_buckets(folder: Path) -> None:
    found = answer(folder, LIMITS | {"max_num_batched_tokens": 1920}, LIMITS)
    assert found["prompt"] == {"kept": 15, "added": [[1, 2048, 0]], "dropped": []}
    assert found["decode"]["added"] == found["decode"]["dropped"] == []


def test_changed_field_is_named_with_both_values(folder: Path) -> None:
    found = answer(folder, INFERENCE, changed(engine={"maxNumSeqs": 4}))
    assert found["changes"] == [{"path": "engine.maxNumSeqs", "old": 2, "new": 4}]


def test_change_of_an_engine_limit_replaces_pods(folder: Path) -> None:
    assert answer(folder, INFERENCE, changed(engine={"maxNumSeqs": 4}))["restarts"] is True


def test_change_of_replicas_replaces_no_pod(folder: Path) -> None:
    assert answer(folder, INFERENCE, changed(replicas=3))["restarts"] is False  # type: ignore[arg-type]


def test_explicit_default_is_not_a_change(folder: Path) -> None:
    found = answer(folder, INFERENCE, changed(engine={"maxNumSeqs": 2, "blockSize": 128}))
    assert (found["changes"], found["restarts"]) == ([], False)


def test_diff_of_bare_limits_does_not_report_pod_replacement(folder: Path) -> None:
    assert answer(folder, LIMITS, LIMITS)["restarts"] is None


def test_recipe_cache_avoids_compiling_the_kept_buckets(folder: Path) -> None:
    compiled = answer(folder, LIMITS | {"max_num_batched_tokens": 1920}, LIMITS)["compiled"]
    assert compiled == {"withRecipeCache": 1, "withoutRecipeCache": 16 + 57, "recipesDiscardedBy": []}


def test_other_image_discards_every_recipe(folder: Path) -> None:
    compiled = answer(folder, INFERENCE, changed(engine={"maxNumSeqs": 2}, server={"image": "example/runtime:2"}))[
        "compiled"
    ]
    assert compiled["recipesDiscardedBy"] == ["server.image"]
    assert compiled["withRecipeCache"] == compiled["withoutRecipeCache"] > 0


def test_setting_that_shapes_graphs_discards_every_recipe(folder: Path) -> None:
    settings = {"VLLM_CONFIG_HIDDEN_LAYERS": 2, "VLLM_DEFRAG_THRESHOLD": 8}
    compiled = answer(folder, INFERENCE, changed(engine={"maxNumSeqs": 2, "settings": settings}))["compiled"]
    assert compiled["recipesDiscardedBy"] == ["engine.settings.VLLM_CONFIG_HIDDEN_LAYERS"]


def forecasts(found: Any) -> dict[str, tuple[float | None, float | None]]:
    return {
        each["figure"]: tuple(side and side["value"] for side in (each["old"], each["new"]))
        for each in found["forecast"]
    }


def test_forecast_of_a_known_model_has_old_and_new_values(folder: Path) -> None:
    llama = {"source": {"huggingFace": {"repo": "meta-llama/Llama-3.1-8B", "revision": "main"}}, "maxModelLen": 2048}
    old, new = changed(model=llama), changed(model=llama, engine={"maxNumSeqs": 64})
    known = forecasts(answer(folder, old, new))
    assert known["weights"][0] == known["weights"][1] == 16_060_522_496
    assert known["warm-up"][0] < known["warm-up"][1]  # type: ignore[operator]


def test_forecast_value_has_confidence_and_source(folder: Path) -> None:
    warmup = answer(folder, LIMITS, LIMITS)["forecast"][-1]
    assert (warmup["figure"], warmup["unit"], warmup["new"]["confidence"]) == ("warm-up", "seconds", "assumed")
    assert warmup["new"]["source"]


def test_release_1_22_has_no_forecast(folder: Path) -> None:
    old = {key: value for key, value in LIMITS.items() if key != "strategy"} | {"release": "1.22"}
    assert forecasts(answer(folder, old, LIMITS))["warm-up"][0] is None


def test_csv_has_a_line_for_each_difference(folder: Path) -> None:
    text = run(folder, LIMITS | {"max_num_batched_tokens": 1920}, LIMITS, "-o", "csv").stdout
    assert list(csv.reader(io.StringIO(text)))[1:] == [["added", "prompt", "1", "2048", "0"]]


def test_table_shows_changes_buckets_and_pod_replacement(folder: Path) -> None:
    shown = run(folder, INFERENCE, changed(engine={"maxNumSeqs": 4})).stdout
    assert "engine.maxNumSeqs" in shown
    assert "prompt: the same 2 buckets" in shown
    assert "A new revision is created. Every pod is replaced" in shown


def test_svg_shows_both_phases(folder: Path) -> None:
    picture = run(folder, LIMITS, LIMITS | {"max_num_seqs": 8}, "-o", "svg").stdout.replace("&#160;", " ")
    assert picture.startswith("<svg")
    assert "prompt buckets: batch size across" in picture
    assert "decode buckets: batch size across" in picture


def test_warnings_name_the_old_or_new_document(folder: Path) -> None:
    warnings = answer(folder, INFERENCE, changed(engine={"maxNumSeqs": 4}))["warnings"]
    assert [warning.split(" KV blocks")[0] for warning in warnings] == ["old: 4", "new: 8"]


@pytest.mark.parametrize("arguments", [["new.yaml"], ["-", "-"], ["a", "b", "c"], ["a", "b", "--from-cluster", "c"]])
def test_other_numbers_of_documents_than_two_are_refused(arguments: list[str]) -> None:
    said = one_sentence(CliRunner().invoke(app, ["diff", *arguments]))
    assert said == "gaudi-plan: give two documents, OLD and NEW, or --from-cluster NAME and NEW.\n"


def test_invalid_document_is_refused_with_one_sentence(folder: Path) -> None:
    assert "max_num_seqs" in one_sentence(run(folder, LIMITS, LIMITS | {"max_num_seqs": 0}))


def question(seqs: int, tokens: int) -> PlanDocument:
    return read_plan_document(
        LIMITS | {"strategy": "exponential", "max_num_seqs": seqs, "max_num_batched_tokens": tokens}
    )


@settings(max_examples=30)
@given(*[st.integers(1, 64), st.integers(128, 8192)] * 2)
def test_old_plan_without_dropped_with_added_is_the_new_plan(
    old_seqs: int, old_tokens: int, new_seqs: int, new_tokens: int
) -> None:
    old, new = question(old_seqs, old_tokens), question(new_seqs, new_tokens)
    found = compare_plans(old, new, old.plan(), new.plan())
    for phase in BucketPhase:
        each = found.phases[phase]
        before, after = (set(scenario.plan().buckets_of(phase)) for scenario in (old, new))
        assert before - set(each.dropped) | set(each.added) == after
        assert set(each.kept) == before & after
