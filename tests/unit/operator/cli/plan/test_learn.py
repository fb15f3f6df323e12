"""`gaudi-plan learn`: a patch of spec.bucketing from the shapes that pods observed."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gaudi_operator.api.v1alpha1.resource import GaudiInference
from gaudi_operator.cli.plan.document import read_plan_document
from gaudi_operator.cli.plan.learn import learn_plan
from gaudi_operator.cli.plan.options import PatchForm
from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.bucketing import OptimalSettings
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.traffic.histogram import parse_traffic
from tests.unit.operator.cli.plan.asked import INFERENCE, answer, plan, refusal

SPEC: dict[str, object] = {
    "model": {"source": {"persistentVolumeClaim": {"claimName": "models"}}, "maxModelLen": 2048},
    "accelerator": {"generation": "gaudi2"},
    "engine": {"maxNumSeqs": 8},
}
BLOCKS = ("--kv-blocks", "200")
TEXT = "# met\n" + "".join(f"prompt 1 {1100 + at} 0 {at}\ndecode {at % 7 + 1} 1 {40 + at} 90\n" for at in range(1, 60))


@pytest.fixture
def met(tmp_path: Path) -> Path:
    path = tmp_path / "traffic.txt"
    path.write_text(TEXT)
    return path


def inference(**more: object) -> dict[str, object]:
    return {**INFERENCE, "spec": {**SPEC, **more}}


def patch(met: Path, *arguments: str, **spec: object) -> Any:
    asked = ("--traffic", str(met), *BLOCKS, *arguments)
    return answer(inference(**spec), *asked, command="learn")["spec"]["bucketing"]


def test_patch_has_the_observed_traffic_and_strategy_optimal(met: Path) -> None:
    bucketing = patch(met, "--graphs", "3", "--decode-graphs", "9")
    assert (bucketing["strategy"], bucketing["file"]) == ("Optimal", None)
    assert (bucketing["optimal"]["promptGraphs"], bucketing["optimal"]["decodeGraphs"]) == (3, 9)
    assert parse_traffic(bucketing["optimal"]["traffic"]) == parse_traffic(TEXT)


def test_patch_has_no_budget_if_no_budget_is_given(met: Path) -> None:
    assert {name for name, value in patch(met)["optimal"].items() if value is not None} == {"traffic"}


def test_patch_removes_the_previous_kind_of_budget(met: Path) -> None:
    assert patch(met, "--graph-bytes", "60000000000")["optimal"]["promptGraphs"] is None


def test_previous_budget_stays_if_no_budget_is_given(met: Path) -> None:
    before = patch(met, "--graphs", "3")
    assert patch(met, bucketing=before)["optimal"]["promptGraphs"] == 3


def test_patch_as_a_file_has_the_buckets_of_optimal(met: Path) -> None:
    asked = ("--graphs", "3", "--decode-graphs", "9")
    optimal, file = (
        answer(inference(bucketing=patch(met, "--as", form, *asked)), *BLOCKS) for form in ("optimal", "file")
    )
    assert (optimal["prompt"], optimal["decode"]) == (file["prompt"], file["decode"])
    assert (len(file["prompt"]), len(file["decode"])) == (3, 9)


@pytest.mark.parametrize("form", ["optimal", "file"])
def test_patched_resource_is_valid(met: Path, form: str) -> None:
    found = {name: value for name, value in patch(met, "--as", form).items() if value is not None}
    GaudiInference.model_validate(inference(bucketing=found))


def test_yaml_patch_equals_the_json_patch(met: Path) -> None:
    result = plan(inference(), "--traffic", str(met), "-o", "yaml", *BLOCKS, command="learn")
    assert yaml.safe_load(result.stdout)["spec"]["bucketing"] == patch(met)


def test_learned_plan_has_fewer_graphs_and_no_more_padding(met: Path) -> None:
    result = plan(inference(), "--traffic", str(met), "-o", "csv", command="learn")
    rows = [line.split(",") for line in result.stdout.splitlines()[1:]]
    graphs = {(row[0], row[1]): int(row[2]) for row in rows}
    padding = {(row[0], row[1]): float(row[3]) for row in rows}
    for phase in ("prompt", "decode"):
        assert padding[phase, "learned"] <= padding[phase, "now"]
    assert graphs["prompt", "learned"] + graphs["decode", "learned"] < graphs["prompt", "now"] + graphs["decode", "now"]


def test_table_shows_both_plans(met: Path) -> None:
    shown = plan(inference(), "--traffic", str(met), command="learn").stdout
    assert shown.count("learned") == 3
    assert shown.count("now") == 2


def test_traffic_files_of_several_pods_are_added(met: Path) -> None:
    twice = patch(met, "--traffic", str(met))["optimal"]["traffic"]
    assert parse_traffic(twice).prompt[Bucket(1, 1101, 0)] == 2


def test_empty_traffic_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("# met\n")
    said = refusal(inference(), "--traffic", str(tmp_path / "t"), command="learn")
    assert said == "gaudi-plan: the traffic is empty: no request was served yet.\n"


def test_invalid_traffic_line_is_named_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_text("prompt 1 2\n")
    assert f"{path}: line 1: the line has 3 fields instead of 5" in refusal(
        inference(), "--traffic", str(path), command="learn"
    )


def test_plan_larger_than_a_bucket_file_is_refused() -> None:
    question = read_plan_document(inference())
    asked = question, parse_traffic(TEXT), OptimalSettings(prompt_graphs=1, decode_graphs=1), PatchForm.FILE
    assert len(learn_plan(*asked, max_file_bytes=50).patch["spec"]["bucketing"]["file"]) <= 50
    with pytest.raises(
        ConfigError, match=r"bytes as a file, but the limit is 20 bytes\. Choose --as optimal or fewer graphs"
    ):
        learn_plan(*asked, max_file_bytes=20)


def test_byte_budget_causes_a_warning_in_the_default_mode() -> None:
    budget, rates = OptimalSettings(graph_bytes=60_000_000_000), "--graph-bytes is counted at the rates of HPU graphs"
    engine = {"name": "vllm", "maxNumSeqs": 8}
    default, graphs = (
        learn_plan(
            read_plan_document(inference(engine={**engine, "executionMode": mode})), parse_traffic(TEXT), budget
        ).warnings
        for mode in (None, "HpuGraphs")
    )
    assert any(said.startswith(rates) for said in default)
    assert not any(said.startswith(rates) for said in graphs)


def test_two_kinds_of_budget_are_refused(met: Path) -> None:
    said = refusal(inference(), "--traffic", str(met), "--graphs", "3", "--warmup-seconds", "60", command="learn")
    assert said == "gaudi-plan: give one budget: graphs, --graph-bytes or --warmup-seconds.\n"
