"""Estimated memory and graphs of a spec: refusals, warnings, and unknown figures."""

from collections.abc import Callable
from typing import Any

import pytest

from gaudi_operator.core.admission.estimate import MOST_TIME_SCALE, Estimate, GraphBounds, why_not_estimated
from gaudi_operator.core.admission.forecast_checks import (
    describe_gate_opening,
    estimated_shortfall,
    estimated_violation,
)
from gaudi_operator.core.admission.spec_forecast import forecast_plan
from gaudi_runtime.engines.sim.script import read_script
from gaudi_runtime.errors import ConfigError, Problem
from tests.support.builders import Object, merged
from tests.support.forecasts import from_the_hub, on_a_card, seed
from tests.unit.operator.core.resources import inference

PASSES = {"minCapturedPromptPercent": 62}
ADVISOR = "`gaudi-plan forecast --from-cluster tiny -n models` finds the smallest change"
SHORT = (
    "spec.readiness requires 100 % of the prompt graphs, but {} 15 of 24 (62 %) fit. To make the graphs fit, raise "
    "spec.warmup.graphMemoryPercent, plan fewer buckets, or lower the percentages in spec.readiness. " + ADVISOR + "."
)
MAYBE_SHORT = SHORT.format("about")


def estimate(spec: Object) -> Estimate:
    found = forecast_plan(inference(**spec))
    assert found is not None
    assert found.estimate is not None
    return found.estimate


def refused(spec: Object) -> Problem | None:
    return estimated_violation(inference(**spec))


def warnings_of(spec: Object) -> str | None:
    return estimated_shortfall(inference(**spec))


def test_estimate_equals_the_graphs_of_the_reference_logs() -> None:
    """Reference logs 000 and 002 show 15 captured graphs of 24 prompt graphs (62.5 %)."""
    assert estimate(seed()).prompt == GraphBounds(planned=24, expected=15, at_best=15)


def test_refusal_below_the_thresholds_has_the_reachable_percentage() -> None:
    assert refused(seed()) == Problem(
        "ThresholdsUnreachable",
        f"{SHORT.format('at most')} Source: {estimate(seed()).source}.",
    )


def test_advised_percentage_is_accepted_and_one_more_is_not() -> None:
    assert refused(seed(readiness={"minCapturedPromptPercent": 62})) is None
    assert refused(seed(readiness={"minCapturedPromptPercent": 63})) is not None


def test_thresholds_do_not_refuse_if_pods_serve_on_shortfall() -> None:
    assert refused(seed(readiness={"onShortfall": "ServeAndWarn"})) is None


def test_expected_serving_below_the_thresholds_causes_a_warning() -> None:
    found = warnings_of(seed(readiness={"onShortfall": "ServeAndWarn"}))
    assert found == MAYBE_SHORT


@pytest.mark.parametrize("spec", [on_a_card(), from_the_hub()], ids=["served name", "hub"])
def test_shortfall_at_higher_estimates_only_causes_a_warning(spec: Object) -> None:
    assert refused(spec) is None
    assert warnings_of(spec) == MAYBE_SHORT


SMALL_POOL: dict[str, Any] = {"engine": {"deviceMemoryUtilizationPercent": 3}, "warmup": {"graphMemoryPercent": 1}}
"""About 20 MiB for graphs. Even at 2.1 KiB per token, the lowest figure of any source, 24 prompt graphs need 68 MiB."""


def test_shortfall_even_at_the_lowest_estimates_is_refused() -> None:
    found = refused(from_the_hub(**SMALL_POOL))
    assert found is not None
    assert found.reason == "ThresholdsUnreachable"


@pytest.mark.parametrize("spec", [on_a_card, from_the_hub], ids=["served name", "hub"])
def test_rates_of_hpu_graphs_do_not_apply_to_torch_compile(spec: Callable[..., Object]) -> None:
    default = merged(spec(**SMALL_POOL), {"engine": {"executionMode": None}})
    assert refused(default) is None
    assert warnings_of(default) is None
    found = estimate(default)
    assert (found.graph_bytes, found.prompt, found.decode) == (None, None, None)
    assert found.warmup_seconds is not None


OUTLOOK = (
    "How many graphs fit is unknown until the first pod has measured them. The gate opens when the pod has captured "
    "100 % of the prompt graphs and 100 % of the decode graphs. If fewer graphs fit, raise "
    "spec.warmup.graphMemoryPercent, lower "
    "spec.readiness.minCapturedPromptPercent or spec.readiness.minCapturedDecodePercent, or set "
    "spec.readiness.onShortfall to ServeAndWarn."
)


def outlook(**changes: Any) -> str | None:
    return describe_gate_opening(inference(**merged(from_the_hub(engine={"executionMode": None}), changes)))


def test_gate_outlook_exists_if_the_graph_count_is_unknown() -> None:
    assert outlook() == OUTLOOK
    assert "80 % of the prompt graphs. If fewer" in str(
        outlook(readiness={"minCapturedPromptPercent": 80, "minCapturedDecodePercent": 0})
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"readiness": {"onShortfall": "ServeAndWarn"}},
        {"readiness": {"minCapturedPromptPercent": 0, "minCapturedDecodePercent": 0}},
        {"engine": {"executionMode": "HpuGraphs"}},
        {"engine": {"executionMode": "Eager"}},
        {"warmup": {"enabled": False}},
        {"accelerator": {"generation": "none"}},
    ],
    ids=str,
)
def test_gate_outlook_is_omitted_if_graphs_are_not_decisive(changes: Object) -> None:
    assert outlook(**changes) is None


def test_model_known_only_by_served_name_causes_warnings() -> None:
    assert refused(on_a_card(**SMALL_POOL)) is None
    assert warnings_of(on_a_card(**SMALL_POOL)) is not None


@pytest.mark.parametrize(
    "spec",
    [
        from_the_hub("Qwen/Qwen2.5-7B", **SMALL_POOL),
        from_the_hub(accelerator={"generation": "gaudi3"}, **SMALL_POOL),
    ],
    ids=["model", "card"],
)
def test_figures_of_another_model_or_card_cause_warnings(spec: Object) -> None:
    assert refused(spec) is None
    assert warnings_of(spec) is not None


def test_shortfalls_of_both_phases_are_in_one_message() -> None:
    found = warnings_of(seed(warmup={"graphMemoryPercent": 0}))
    assert found == (
        "spec.readiness requires 100 % of the prompt graphs, but about 1 of 24 (4 %) fit and requires 100 % of the "
        "decode graphs, but about 1 of 48 (2 %) fit. To make the graphs fit, raise spec.warmup.graphMemoryPercent, "
        f"plan fewer buckets, or lower the percentages in spec.readiness. {ADVISOR}."
    )


def test_weights_that_a_simulated_card_cannot_hold_are_refused() -> None:
    found = refused(seed(engine={"simulation": {"model": "meta-llama/Llama-3.1-70B"}}))
    assert found is not None
    assert found.reason == "WeightsTooLarge"


def test_invalid_ranks_of_a_recognized_model_cause_a_warning() -> None:
    spec = on_a_card(model={"servedNames": ["meta-llama/Llama-3.1-70B"]}, parallelism={"tensor": 7})
    assert refused(spec) is None
    assert (warnings_of(spec) or "").startswith("The model may not fit the ranks of spec.parallelism: ")


def test_weights_too_large_for_any_workspace_are_refused() -> None:
    found = refused(from_the_hub("meta-llama/Llama-3.1-70B"))
    assert found is not None
    assert found.reason == "WeightsTooLarge"
    assert found.message.startswith("The model does not fit: the weights (about 131.42 GiB) ")
    assert found.message.endswith(f" To free memory, use more cards, a smaller model or quantization. {ADVISOR}.")


def resource_with_block_size(size: int) -> Object:
    """Return a resource with KV blocks of `size` tokens and about 8 MiB of KV cache at 128 KiB per token."""
    engine = {"deviceMemoryUtilizationPercent": 1, "blockSize": size}
    return from_the_hub(engine=engine, warmup={"graphMemoryPercent": 99})


def test_kv_block_larger_than_all_usable_memory_is_refused() -> None:
    found = refused(resource_with_block_size(66))
    assert found is not None
    assert found.reason == "NoKvBlock"


def test_kv_block_without_space_after_the_workspace_causes_a_warning() -> None:
    assert refused(resource_with_block_size(65)) is None
    assert ", but one KV block takes " in (warnings_of(resource_with_block_size(65)) or "")


def test_sequence_longer_than_the_kv_cache_causes_a_warning() -> None:
    spec = from_the_hub(
        "meta-llama/Llama-3.1-70B",
        parallelism={"tensor": 2},
        model={"maxModelLen": 131_072},
        engine={"maxNumBatchedTokens": 131_072},
    )
    assert refused(spec) is None
    assert (warnings_of(spec) or "").startswith(
        "The model may not fit: a sequence of maxModelLen = 131072 tokens needs "
    )


def test_ranks_that_do_not_divide_the_heads_are_refused() -> None:
    found = refused(from_the_hub("meta-llama/Llama-3.1-70B", parallelism={"tensor": 7}))
    assert found is not None
    assert found.reason == "ParallelismImpossible"
    assert found.message.startswith("The model does not fit the ranks of spec.parallelism: parallelism.tensor is 7, ")
    assert "the model's number of attention heads, 64" in found.message


def test_large_weights_of_a_recognized_model_cause_a_warning() -> None:
    spec = on_a_card(model={"servedNames": ["meta-llama/Llama-3.1-70B"]})
    assert refused(spec) is None
    assert (warnings_of(spec) or "").startswith("The model may not fit: the weights (about ")


def test_spec_with_the_advised_ranks_is_accepted() -> None:
    assert refused(from_the_hub("meta-llama/Llama-3.1-70B", parallelism={"tensor": 2}, readiness=PASSES)) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"engine": {"simulation": {"model": "unknown/model"}}},
        {"engine": {"simulation": {"card": "gaudi9"}}},
        {"engine": {"simulation": {"card": None}}},
        {"engine": {"simulation": {"card": "none", "model": None}}},
        {"engine": {"simulation": {"weightBytes": "1"}}},
        {"engine": {"simulation": {"oomAtBucket": "prompt:3"}}},
        {"engine": {"name": "torch", "simulation": None}},
    ],
    ids=str,
)
def test_unknown_model_or_card_is_not_estimated(changes: dict[str, Any]) -> None:
    found = forecast_plan(inference(**seed(**changes)))
    assert found is not None
    assert found.estimate is None
    assert refused(seed(**changes)) is None
    assert warnings_of(seed(**changes)) is None


@pytest.mark.parametrize(
    ("spec", "source"),
    [
        (seed(), "gaudi2 and the model meta-llama/Llama-3.1-8B (as measured with this model)"),
        (
            on_a_card(),
            "gaudi2 and the model meta-llama/Llama-3.1-8B, recognized by its served name (as measured with this model)",
        ),
        (from_the_hub("Qwen/Qwen2.5-7B"), "gaudi2 and the model Qwen/Qwen2.5-7B (scaled from another model)"),
        (
            from_the_hub(accelerator={"generation": "gaudi3"}),
            "gaudi3 and the model meta-llama/Llama-3.1-8B (assumed)",
        ),
    ],
    ids=["simulated", "served name", "scaled", "another card"],
)
def test_source_names_card_model_and_origin_of_the_rates(spec: Object, source: str) -> None:
    assert estimate(spec).source == f"the description of card {source}"


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (
            {"engine": {"name": "sim"}},
            "spec.engine.simulation has no known card and model, or sets sizes, times or faults of its own",
        ),
        ({"engine": {"name": "vllm"}}, "the memory of graphs on a CPU is unknown"),
        (
            {"engine": {"name": "vllm"}, "accelerator": {"generation": "gaudi3"}},
            "the model is unknown. For an estimate, add its public repository to spec.model.servedNames",
        ),
    ],
    ids=["simulation", "CPU", "model"],
)
def test_missing_estimate_has_a_reason(spec: Object, why: str) -> None:
    assert why_not_estimated(inference(**spec).spec) == why


def test_simulation_without_a_model_uses_the_cards_measured_model() -> None:
    assert estimate(seed(engine={"simulation": {"model": None}})) == estimate(seed())


def test_seconds_of_a_simulation_follow_its_time_scale() -> None:
    whole = estimate(seed()).warmup_seconds
    half = estimate(seed(engine={"simulation": {"timeScale": "0.5"}})).warmup_seconds
    assert whole is not None
    assert half is not None
    assert abs(whole / 2 - half) <= 1


@pytest.mark.parametrize("scale", ["soon", "nan", "inf", "1e308", "-1", str(MOST_TIME_SCALE + 1)])
def test_time_scale_refused_by_the_runtime_is_not_estimated(scale: str) -> None:
    spec = seed(engine={"simulation": {"timeScale": scale}})
    with pytest.raises(ConfigError, match="timeScale"):
        read_script({"timeScale": scale})
    assert forecast_plan(inference(**spec)) is not None
    assert refused(spec) is None


def test_time_scale_of_zero_means_zero_warm_up_seconds() -> None:
    assert read_script({"timeScale": "0"}).time_scale == 0
    assert estimate(seed(engine={"simulation": {"timeScale": "0"}})).warmup_seconds == 0


def test_largest_time_scale_is_accepted_and_estimated() -> None:
    scale = str(MOST_TIME_SCALE)
    assert read_script({"timeScale": scale}).time_scale == MOST_TIME_SCALE
    assert (estimate(seed(engine={"simulation": {"timeScale": scale}})).warmup_seconds or 0) > 10_000


def test_engine_without_graphs_has_no_shortfall() -> None:
    assert refused(seed(engine={"executionMode": "Eager"})) is None
