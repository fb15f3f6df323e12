"""The variables and arguments that an engine is started with."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.knobs.fields import SETTING_FIELDS, field_values
from gaudi_runtime.knobs.render import render_engine_options
from gaudi_runtime.knobs.setting_errors import setting_error
from gaudi_runtime.knobs.table import ENGINE, KnobHome, knobs
from tests.unit.runtime.knobs.configs import vllm_config


def env(**sections: Any) -> dict[str, str]:
    return render_engine_options(vllm_config(**sections)).env


def args(**sections: Any) -> tuple[str, ...]:
    return render_engine_options(vllm_config(**sections)).args


def test_renderer_sets_exactly_the_knobs_of_fields() -> None:
    rows = [knob for knob in knobs().values() if knob.home is KnobHome.FIELD or knob.name in SETTING_FIELDS]
    assert set(field_values(vllm_config())) == {knob.name for knob in rows if knob.reader in ENGINE}


def test_environment_of_a_plain_model() -> None:
    assert env() == {
        "PT_HPU_LAZY_MODE": "1",
        "VLLM_BUCKETING_STRATEGY": "lin",
        "VLLM_CONTIGUOUS_PA": "true",
        "VLLM_ENGINE_READY_TIMEOUT_S": "604800",
        "VLLM_GRAPH_RESERVED_MEM": "0.1",
        "VLLM_PROMPT_BS_BUCKET_MAX": "1",
        "VLLM_SKIP_WARMUP": "false",
    }


def test_arguments_of_a_plain_model() -> None:
    assert args() == (
        '--limit-mm-per-prompt={"audio": 1, "image": 4, "video": 0}',
        "--dtype=auto",
        "--kv-cache-dtype=auto",
        "--max-model-len=4096",
        "--max-num-seqs=32",
        "--max-num-batched-tokens=2048",
        "--block-size=128",
        "--gpu-memory-utilization=0.9",
        "--no-enable-prefix-caching",
        "--enable-chunked-prefill",
        "--tensor-parallel-size=1",
        "--pipeline-parallel-size=1",
        "--data-parallel-size=1",
        "--model=/models",
        "--served-model-name",
        "chat",
    )


@pytest.mark.parametrize(
    ("mode", "lazy", "eager"),
    [("hpuGraphs", "1", False), ("lazy", "1", True), ("torchCompile", "0", False), ("eager", "0", True)],
)
def test_execution_mode_sets_lazy_mode_and_enforce_eager(mode: str, lazy: str, eager: bool) -> None:
    engine = {"executionMode": mode}
    assert env(engine=engine)["PT_HPU_LAZY_MODE"] == lazy
    assert ("--enforce-eager" in args(engine=engine)) is eager


@pytest.mark.parametrize(
    ("device", "mode", "rendered"),
    [("cpu", "eager", "1"), ("cpu", "torchCompile", None), ("hpu", "eager", None)],
)
def test_eager_mode_on_a_cpu_disables_dynamo(device: str, mode: str, rendered: str | None) -> None:
    assert env(engine={"device": device, "executionMode": mode}).get("TORCHDYNAMO_DISABLE") == rendered


def test_collectives_are_captured_if_cards_share_a_model() -> None:
    assert env(parallelism={"tensor": 8})["PT_HPU_ENABLE_LAZY_COLLECTIVES"] == "true"
    assert "PT_HPU_ENABLE_LAZY_COLLECTIVES" not in env()


def test_ranges_are_rendered_for_strategies_that_read_them() -> None:
    ranges = {"strategy": "paddingAware", "decode": {"blocks": {"max": 64, "padPercent": 10}}}
    found = env(bucketing=ranges)
    assert (found["VLLM_DECODE_BLOCK_BUCKET_MAX"], found["VLLM_DECODE_BLOCK_BUCKET_PAD_PERCENT"]) == ("64", "10")


def test_ranges_that_a_strategy_ignores_are_not_rendered() -> None:
    """A query minimum of 1 has a special meaning in the plugin's exponential strategy, but not in our plan."""
    found = env(bucketing={"strategy": "exponential", "prompt": {"query": {"min": 1}}})
    assert "VLLM_PROMPT_QUERY_BUCKET_MIN" not in found


@pytest.mark.parametrize("strategy", ["file", "optimal"])
def test_strategies_file_and_optimal_are_not_passed_to_the_plugin(strategy: str) -> None:
    """The plugin receives the planned buckets, so it needs neither a strategy nor a file."""
    assert not {"VLLM_BUCKETING_STRATEGY", "VLLM_BUCKETING_FROM_FILE"} & set(env(bucketing={"strategy": strategy}))


def test_largest_prompt_batch_size_is_max_num_prefill_seqs() -> None:
    limits = {"maxModelLen": 4096, "maxNumSeqs": 32, "maxNumBatchedTokens": 2048, "maxNumPrefillSeqs": 4}
    assert env(limits=limits)["VLLM_PROMPT_BS_BUCKET_MAX"] == "4"


def test_quantized_model_names_its_method_and_configuration() -> None:
    model = {"quantization": {"method": "inc", "configFile": "/models/inc.json"}, "kvCacheDtype": "fp8_inc"}
    found = render_engine_options(vllm_config(model=model))
    assert {"--quantization=inc", "--kv-cache-dtype=fp8_inc"} <= set(found.args)
    assert found.env["QUANT_CONFIG"] == "/models/inc.json"


def test_boolean_field_uses_the_values_of_its_knob() -> None:
    found = env(warmup={"enabled": False, "failOnColdShapes": True}, engine={"executionMode": "torchCompile"})
    assert (found["VLLM_SKIP_WARMUP"], found["VLLM_FULL_WARMUP"]) == ("true", "1")


CPU = {"name": "vllm", "device": "cpu", "executionMode": "torchCompile"}


def test_cpu_gets_no_settings_of_cards() -> None:
    found = render_engine_options(vllm_config(engine=CPU, warmup={"maxGraphTokens": 512}))
    assert found.env == {"VLLM_ENGINE_READY_TIMEOUT_S": "604800"}
    assert not [each for each in found.args if "cudagraph" in each]


@pytest.mark.parametrize(
    ("method", "card", "cpu"),
    [("awq", "awq_hpu", "awq"), ("mxfp4",) + ("gpt_oss_mxfp4",) * 2, ("compressed-tensors",) * 3],
)
def test_quantization_argument_depends_on_the_device(method: str, card: str, cpu: str) -> None:
    model = {"quantization": {"method": method}}
    assert f"--quantization={card}" in args(model=model)
    assert f"--quantization={cpu}" in args(model=model, engine=CPU)


ADAPTERS = {"adapters": [{"name": "sql", "path": "/adapters/0"}, {"name": "team/code", "path": "/adapters/1"}]}


def test_adapters_are_passed_by_name_and_path() -> None:
    found = args(model=ADAPTERS)
    at = found.index("--lora-modules")
    assert found[at : at + 3] == ("--lora-modules", "sql=/adapters/0", "team/code=/adapters/1")
    assert {"--enable-lora", "--max-loras=2", "--max-lora-rank=16"} <= set(found)


def test_memory_is_reserved_for_all_adapters_of_a_step() -> None:
    assert "--max-loras=1" in args(model={**ADAPTERS, "maxAdaptersPerBatch": 1})


def test_model_without_adapters_reserves_no_memory_for_them() -> None:
    assert not [each for each in args() if "lora" in each]


@pytest.mark.parametrize(
    ("rendered", "limits"),
    [
        ({}, '{"audio": 1, "image": 4, "video": 0}'),
        ({"image": 2}, '{"audio": 1, "image": 2, "video": 0}'),
        ({"image": 0, "video": 3, "audio": 9}, '{"audio": 9, "image": 0, "video": 3}'),
    ],
)
def test_media_per_prompt_are_limited_unless_configured(rendered: dict[str, int], limits: str) -> None:
    assert f"--limit-mm-per-prompt={limits}" in args(model={"itemsPerPrompt": rendered})


def test_served_names_with_a_space_are_not_split() -> None:
    found = args(model={"servedNames": ["my model", "chat"]})
    assert found[found.index("--served-model-name") + 1 :][:2] == ("my model", "chat")


def test_settings_are_rendered_as_values_and_flags() -> None:
    settings = {
        "PT_HPU_METRICS_GC_DETAILS": "yes",
        "ENABLE_CONSOLE": "off",
        "--async-scheduling": "true",
        "--enable-log-requests": "false",
        "--generation-config": "vllm",
    }
    found = render_engine_options(vllm_config(engine={"settings": settings}))
    assert (found.env["PT_HPU_METRICS_GC_DETAILS"], found.env["ENABLE_CONSOLE"]) == ("1", "false")
    assert {"--async-scheduling", "--no-enable-log-requests", "--generation-config=vllm"} <= set(found.args)


def test_extra_args_are_the_last_arguments() -> None:
    assert args(engine={"extraArgs": ["--cpu-offload-gb=4"]})[-1] == "--cpu-offload-gb=4"


def test_simulation_gets_no_variables() -> None:
    found = render_engine_options(
        vllm_config(engine={"name": "sim", "settings": {"OMP_NUM_THREADS": "2"}, "extraArgs": ["--cpu-offload-gb=4"]})
    )
    assert (found.env, found.args) == ({}, ())


def test_all_wrong_settings_are_refused_together() -> None:
    engine = {"settings": {"VLLM_USE_V1": "1", "LOG_LEVEL_ALL": "9"}, "extraArgs": ["--model=/other"]}
    with pytest.raises(ConfigError) as refused:
        render_engine_options(vllm_config(engine=engine))
    assert str(refused.value) == (
        f"engine.settings: {setting_error('LOG_LEVEL_ALL', '9')}; "
        f"engine.settings: {setting_error('VLLM_USE_V1', '1')}; "
        f"engine.extraArgs: {setting_error('--model', '/other')}."
    )


def test_setting_that_has_a_field_is_refused() -> None:
    with pytest.raises(ConfigError) as refused:
        render_engine_options(vllm_config(engine={"settings": {"VLLM_CONTIGUOUS_PA": "false"}}))
    assert str(refused.value) == (
        "engine.settings: VLLM_CONTIGUOUS_PA is a field of a RuntimeConfig: set limits.contiguousPagedAttention."
    )


def test_every_engine_setting_is_rendered() -> None:
    samples = {
        "bool": "true", "int": "1024", "float": "1", "path": "/a", "json": "{}", "string": "a", "list": "1",
    }  # fmt: skip
    rows = [each for each in knobs().values() if each.home is KnobHome.SETTINGS and each.reader in ENGINE]
    for row in (each for each in rows if each.name not in SETTING_FIELDS):
        named = row.type == "enum" or (row.type == "list" and len(row.choices) > 1)
        value = row.choices[0] if named else samples[row.type]
        value = "1" if row.name in ("LOG_LEVEL_ALL", "VLLM_ROW_PARALLEL_CHUNKS") else value
        found = render_engine_options(vllm_config(engine={"settings": {row.name: value}}))
        assert row.name in found.env or any(each.partition("=")[0] == row.name for each in found.args), row.name


@given(st.dictionaries(st.sampled_from(["LOG_LEVEL_ALL", "VLLM_DEFRAG_THRESHOLD", "--async-scheduling"]), st.just("1")))
def test_order_of_settings_does_not_change_the_result(settings: dict[str, str]) -> None:
    turned = dict(reversed(settings.items()))
    assert render_engine_options(vllm_config(engine={"settings": settings})) == render_engine_options(
        vllm_config(engine={"settings": turned})
    )


def test_rendering_accepts_a_deserialized_config() -> None:
    config = vllm_config(engine={"settings": {"LOG_LEVEL_ALL": "3"}})
    assert render_engine_options(
        RuntimeConfig.model_validate_json(config.model_dump_json(by_alias=True))
    ) == render_engine_options(config)


def test_each_range_setting_sets_the_variable_of_its_dimension() -> None:
    sections = {
        "PROMPT_BS": ("prompt", "batchSize"),
        "PROMPT_QUERY": ("prompt", "query"),
        "PROMPT_CTX": ("prompt", "context"),
        "DECODE_BS": ("decode", "batchSize"),
        "DECODE_BLOCK": ("decode", "blocks"),
    }
    bucketing: dict[str, Any] = {"strategy": "linear", "prompt": {}, "decode": {}}
    expected = {}
    for number, (name, (phase, dimension)) in enumerate(sections.items(), start=1):
        low, step, high = 128 * number, 128 * (number + 5), 128 * (number + 10)
        bucketing[phase][dimension] = {"min": low, "step": step, "max": high}
        expected |= {f"VLLM_{name}_BUCKET_{key}": str(each) for key, each in zip(KEYS, (low, step, high), strict=True)}
    found = env(bucketing=bucketing, limits={"maxModelLen": 8192, "maxNumSeqs": 2048, "maxNumPrefillSeqs": 2048})
    assert {name: found.get(name) for name in expected} == expected


KEYS = ("MIN", "STEP", "MAX")
