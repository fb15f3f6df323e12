"""`gaudi-plan forecast --strategies`: the strategies side by side, and the plot of graphs against padding."""

from functools import cache
from typing import Any
from xml.etree.ElementTree import fromstring

from tests.support.builders import merged
from tests.unit.operator.cli.plan.asked import RUNTIME_CONFIG, answer, plan

CONFIG = merged(RUNTIME_CONFIG, {"limits": {"maxModelLen": 2048, "maxNumSeqs": 8, "maxNumBatchedTokens": 2048}})
BLOCKS = ("--kv-blocks", "200")


def strategies(document: object, *arguments: str) -> Any:
    return answer(document, "--strategies", *arguments, command="forecast")["strategies"]


@cache
def compared() -> Any:
    return strategies(CONFIG, *BLOCKS)


def test_strategies_are_compared_only_on_request() -> None:
    assert answer(CONFIG, command="forecast")["strategies"] is None


def test_comparison_lists_all_strategies_with_graphs_and_warm_up_time() -> None:
    assert list(compared()) == [
        *("Exponential", "Linear", "PaddingAware", "Optimal"),
        *("Optimal, half", "Optimal, twice"),
    ]
    assert compared()["Exponential"]["prompt"]["graphs"] == len(answer(CONFIG, *BLOCKS)["prompt"])
    assert compared()["Exponential"]["warmupSeconds"] > 0


def test_strategy_without_a_plan_has_the_reason() -> None:
    short = merged(CONFIG, {"bucketing": {"prompt": {"query": {"min": 4096}}}})
    assert "bucketing.prompt.query: min 4096" in strategies(short)["Linear"]["refused"]


def test_optimal_pads_no_more_than_exponential_without_traffic() -> None:
    for phase in ("prompt", "decode"):
        optimal, exponential = (compared()[name][phase]["padding"] for name in ("Optimal", "Exponential"))
        assert 1 < optimal <= max(exponential * 1.005, 1.02)
    assert compared()["Optimal"]["coverage"] == 1.0


def test_optimal_is_also_compared_with_half_and_twice_the_graphs() -> None:
    half, chosen, twice = (compared()[name] for name in ("Optimal, half", "Optimal", "Optimal, twice"))
    assert graphs(half) == round(graphs(chosen) / 2)
    assert graphs(twice) == 2 * graphs(chosen)
    assert padding(half) > padding(chosen) > padding(twice)
    assert half["warmupSeconds"] < chosen["warmupSeconds"] < twice["warmupSeconds"]


def graphs(figures: dict[str, dict[str, float]]) -> float:
    return figures["prompt"]["graphs"] + figures["decode"]["graphs"]


def padding(figures: dict[str, dict[str, float]]) -> float:
    return figures["prompt"]["padding"] + figures["decode"]["padding"]


def test_policy_with_graph_counts_of_a_row_has_its_values() -> None:
    half = compared()["Optimal, half"]
    asked = {"promptGraphs": half["prompt"]["graphs"], "decodeGraphs": half["decode"]["graphs"]}
    assert strategies(merged(CONFIG, {"bucketing": {"optimal": asked}}), *BLOCKS)["Optimal"] == half


def test_padding_is_computed_from_the_traffic_of_the_policy() -> None:
    learned = merged(CONFIG, {"bucketing": {"optimal": {"traffic": "prompt 1 640 0 1\ndecode 2 1 9 1"}}})
    assert strategies(learned)["Optimal"]["prompt"]["padding"] == 1.0
    broken = merged(CONFIG, {"bucketing": {"optimal": {"traffic": "prompt 1 many 0 1"}}})
    assert "line 1" in strategies(broken)["Optimal"]["refused"]


def test_svg_has_a_curve_and_a_label_for_each_strategy() -> None:
    picture = plan(CONFIG, *BLOCKS, "-o", "svg", command="forecast").stdout
    texts = [each.text or "" for each in fromstring(picture).iter("{http://www.w3.org/2000/svg}text")]  # noqa: S314
    counts = {name: graphs(figures) for name, figures in compared().items() if "," not in name}
    assert all(any(text.startswith(f"{name}: {count} graphs") for text in texts) for name, count in counts.items())
    (curve,) = fromstring(picture).iter("{http://www.w3.org/2000/svg}polyline")  # noqa: S314
    assert len(curve.attrib["points"].split()) >= 5


def test_graph_bytes_of_the_default_mode_are_unknown() -> None:
    spec = {
        "model": {"source": {"persistentVolumeClaim": {"claimName": "models"}}, "maxModelLen": 2048},
        "accelerator": {"generation": "gaudi3"},
        "engine": {"name": "vllm", "maxNumSeqs": 8},
    }
    manifest = {"apiVersion": "inference.gaudi.dev/v1alpha1", "kind": "GaudiInference", "spec": spec}
    default, hpu_graphs = (
        strategies(merged(manifest, {"spec": {"engine": {"executionMode": mode}}}), "--kv-blocks", "200")
        for mode in (None, "HpuGraphs")
    )
    assert {figures["graphBytes"] for figures in default.values()} == {None}
    assert all(figures["graphBytes"] > 0 for figures in hpu_graphs.values())
