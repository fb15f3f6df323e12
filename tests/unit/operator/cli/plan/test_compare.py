"""`gaudi-plan compare`: comparison of strategies without a trace."""

import csv
from functools import cache
from io import StringIO
from typing import Any
from xml.etree.ElementTree import fromstring

import pytest

from gaudi_operator.cli.plan.comparison import format_change
from tests.unit.operator.cli.plan.asked import answer, plan

LIMITS = {"max_model_len": 2048, "max_num_seqs": 8, "max_num_batched_tokens": 2048, "num_blocks": 200}


@cache
def compared() -> Any:
    return answer(LIMITS, command="compare")


def test_comparison_lists_all_strategies_with_graphs_and_warm_up_time() -> None:
    result = compared()
    assert list(result["strategies"]) == ["Exponential", "Linear", "PaddingAware", "Optimal"]
    exponential = result["strategies"]["Exponential"]
    assert exponential["prompt_graphs"] == len(answer(LIMITS)["prompt"])
    assert exponential["warmup_seconds"] > 0


def test_admissible_batches_without_a_bucket_are_counted() -> None:
    gappy = LIMITS | {"max_num_seqs": 100}
    assert answer(gappy, command="compare")["strategies"]["Linear"]["admissible_without_bucket"] > 0


def test_strategy_without_a_plan_has_the_reason() -> None:
    short = LIMITS | {"env": {"VLLM_PROMPT_QUERY_BUCKET_MIN": 4096}}
    result = answer(short, command="compare")
    assert "bucketing.prompt.query: min 4096" in result["refused"]["Linear"]


def test_warnings_mark_the_values_as_estimates() -> None:
    assert any("estimates" in warning for warning in compared()["warnings"])


def test_table_shows_all_strategies_in_a_hundred_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    shown = plan(LIMITS, command="compare").stdout
    names = ("Exponential", "Linear", "PaddingAware", "Optimal", "Optimal, half", "Optimal, twice")
    assert all(f"│ {name} " in shown for name in names)
    assert "…" not in shown


def test_optimal_pads_no_more_than_exponential_without_traffic() -> None:
    strategies = compared()["strategies"]
    for phase in ("prompt", "decode"):
        assert 1 < strategies["Optimal"][f"{phase}_padding"] <= strategies["Exponential"][f"{phase}_padding"] * 1.005
        assert strategies["Optimal"][f"{phase}_coverage"] == 1.0


def test_optimal_is_also_compared_with_half_and_twice_the_graphs() -> None:
    result = compared()
    chosen, half, twice = result["strategies"]["Optimal"], *(result["optimal_with"][name] for name in ("half", "twice"))
    assert graphs(half) == round(graphs(chosen) / 2)
    assert graphs(twice) == 2 * graphs(chosen)
    assert padding(half) > padding(chosen) > padding(twice)
    assert half["warmup_seconds"] < chosen["warmup_seconds"] < twice["warmup_seconds"]
    assert {each[f"{phase}_coverage"] for each in (half, twice) for phase in ("prompt", "decode")} == {1.0}


def graphs(facts: dict[str, float]) -> float:
    return facts["prompt_graphs"] + facts["decode_graphs"]


def padding(facts: dict[str, float]) -> float:
    return facts["prompt_padding"] + facts["decode_padding"]


def test_policy_with_graph_counts_of_a_row_has_its_values() -> None:
    limits = {"maxModelLen": 2048, "maxNumSeqs": 8, "maxNumBatchedTokens": 2048}
    config = {
        "version": "v1",
        "model": {"path": "/m", "servedNames": ["m"]},
        "engine": {"name": "sim"},
        "limits": limits,
    }
    half = answer(config, command="compare")["optimal_with"]["half"]
    asked = {"promptGraphs": half["prompt_graphs"], "decodeGraphs": half["decode_graphs"]}
    bucketing = {"strategy": "optimal", "optimal": asked}
    assert answer(config | {"bucketing": bucketing}, command="compare")["strategies"]["Optimal"] == half


def test_padding_is_computed_from_the_traffic_of_the_policy() -> None:
    config = {
        "version": "v1",
        "model": {"path": "/models", "servedNames": ["tiny"]},
        "engine": {"name": "sim"},
        "limits": {"maxModelLen": 2048, "maxNumSeqs": 8, "maxNumBatchedTokens": 2048},
        "bucketing": {"strategy": "optimal", "optimal": {"traffic": "prompt 1 640 0 1\ndecode 2 1 9 1"}},
    }
    result = answer(config, command="compare")
    assert result["strategies"]["Optimal"]["prompt_padding"] == 1.0
    assert any("bucketing.optimal.traffic" in said for said in result["warnings"])
    config["bucketing"] = {"optimal": {"traffic": "prompt 1 many 0 1"}}
    result = answer(config, command="compare")
    assert "line 1" in result["refused"]["Optimal"]
    assert any("no traffic is given" in said for said in result["warnings"])


def test_signed_percentages_have_one_sign_and_no_negative_zero() -> None:
    assert [format_change(share) for share in (-0.0012, -0.0001, 0.0, 0.147)] == [
        "-0.1 %",
        "+0.0 %",
        "+0.0 %",
        "+14.7 %",
    ]


def test_csv_has_rows_for_half_and_twice_the_graphs() -> None:
    rows = list(csv.DictReader(StringIO(plan(LIMITS, "-o", "csv", command="compare").stdout)))
    assert [row["strategy"] for row in rows][-3:] == ["Optimal", "Optimal, half", "Optimal, twice"]
    assert all(float(row["decode_padding"]) > 1 for row in rows)


def test_svg_has_a_curve_and_a_label_for_each_strategy() -> None:
    picture = plan(LIMITS, "-o", "svg", command="compare").stdout
    texts = [each.text or "" for each in fromstring(picture).iter("{http://www.w3.org/2000/svg}text")]  # noqa: S314
    counts = {name: each["prompt_graphs"] + each["decode_graphs"] for name, each in compared()["strategies"].items()}
    assert all(any(text.startswith(f"{name}: {count} graphs") for text in texts) for name, count in counts.items())
    (curve,) = fromstring(picture).iter("{http://www.w3.org/2000/svg}polyline")  # noqa: S314
    assert len(curve.attrib["points"].split()) >= 5


def test_graph_bytes_of_the_default_mode_are_unknown() -> None:
    spec = {
        "model": {"source": {"persistentVolumeClaim": {"claimName": "models"}}, "maxModelLen": 4096},
        "accelerator": {"generation": "gaudi3"},
        "engine": {"name": "vllm", "maxNumSeqs": 8},
    }
    manifest = {"apiVersion": "inference.gaudi.dev/v1alpha1", "kind": "GaudiInference", "spec": spec}
    result = answer(manifest, command="compare")
    assert {each["graph_bytes"] for each in result["strategies"].values()} == {None}
    assert all(each["warmup_seconds"] > 0 for each in result["strategies"].values())
    assert any(said.startswith("graph_bytes are unknown in TorchCompile") for said in result["warnings"])
    assert "GiB" not in plan(manifest, command="compare").stdout
    spec["engine"]["executionMode"] = "HpuGraphs"
    assert all(each["graph_bytes"] > 0 for each in answer(manifest, command="compare")["strategies"].values())
