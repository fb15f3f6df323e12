"""The messages to users about wrong settings."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.knobs.setting_errors import (
    argument_errors,
    nearest_setting_names,
    setting_error,
    setting_errors,
    unknown_variable_errors,
    variable_errors,
)
from gaudi_runtime.knobs.table import Knob, KnobHome, knobs, to_engine_value_of_knob

UNKNOWN = "is not a knob of the engine, and {} (the page Knobs lists all names)"
NO_COUNT = "give a whole number of at least 0"
KV_TRANSFER = (
    "is not supported, because replicas have no roles, and no Service or NetworkPolicy opens a port for KV data: "
    "remove this setting"
)
POOLING = "this release plans and warms up no shapes of pooling models"
SENTENCES = {
    ("VLLM_DEFRAG_TRESHOLD", "8"): "VLLM_DEFRAG_TRESHOLD "
    + UNKNOWN.format("the nearest names are VLLM_DEFRAG_THRESHOLD, VLLM_DEFRAG"),
    ("ZZZZ", "1"): f"ZZZZ {UNKNOWN.format('no known name is similar')}",
    ("VLLM_SKIP_WARMUP", "1"): "VLLM_SKIP_WARMUP cannot be set here: use spec.warmup.policy instead",
    ("VLLM_PROMPT_BS_BUCKET_MAX", "1"): "VLLM_PROMPT_BS_BUCKET_MAX cannot be set here: use "
    "spec.bucketing.prompt.batchSize.max and spec.engine.maxNumPrefillSeqs instead",
    ("VLLM_PROMPT_SEQ_BUCKET_MAX", "1"): "VLLM_PROMPT_SEQ_BUCKET_MAX is deprecated (Old name of the QUERY variable): "
    "use the field spec.bucketing.prompt.query.max instead",
    ("VLLM_ENGINE_ITERATION_TIMEOUT_S", "600"): "VLLM_ENGINE_ITERATION_TIMEOUT_S is deprecated (Longest step of the "
    "old engine): use VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS instead",
    ("VLLM_USE_V1", "1"): "VLLM_USE_V1 is deprecated (Chose the engine's generation; only the current one is left): "
    "remove this setting",
    ("--num-scheduler-steps", "8"): "--num-scheduler-steps is read only by the old V0 engine (Several steps per "
    "scheduling in the old engine): use --async-scheduling instead",
    ("VLLM_PT_PROFILE", "prompt_1_128_t"): "VLLM_PT_PROFILE is a switch for developers of the engine (Profiles one "
    "shape at start and then ends the process): remove this setting",
    ("PT_HPU_METRICS_GC_DETAILS", "ture"): "PT_HPU_METRICS_GC_DETAILS is 'ture': give true or false",
    ("VLLM_DEFRAG_THRESHOLD", "-1"): f"VLLM_DEFRAG_THRESHOLD is '-1': {NO_COUNT}",
    ("VLLM_DEFRAG_THRESHOLD", "eight"): f"VLLM_DEFRAG_THRESHOLD is 'eight': {NO_COUNT}",
    ("LOG_LEVEL_ALL", "7"): "LOG_LEVEL_ALL is '7': give a whole number from 0 to 6",
    ("VLLM_MINIMAX_M3_MOE_TOKEN_TILE", "x"): "VLLM_MINIMAX_M3_MOE_TOKEN_TILE is 'x': give a whole number",
    ("--kv-offloading-size", "nan"): "--kv-offloading-size is 'nan': give a number of at least 0",
    ("VLLM_WORKER_MULTIPROC_METHOD", "thread"): "VLLM_WORKER_MULTIPROC_METHOD is 'thread': give one of spawn, fork",
    ("HABANA_PROFILE", "2"): "HABANA_PROFILE is '2': give 1, or remove the setting",
    ("HABANA_LOGS", "logs"): "HABANA_LOGS is 'logs': give an absolute path",
    ("--speculative-config", "[1]"): "--speculative-config is '[1]': give a JSON object",
    (
        "VLLM_DEBUG",
        "defrag,all",
    ): "VLLM_DEBUG is 'defrag,all': give one or more of steps, defrag, fwd, with commas between them",
    ("HCCL_SOCKET_IFNAME", "a\nb"): "HCCL_SOCKET_IFNAME is 'a\\nb': give text of one line",
    ("HCCL_SOCKET_IFNAME", ""): "HCCL_SOCKET_IFNAME is '': give text of one line",
    ("--kv-transfer-config", "{}"): f"--kv-transfer-config {KV_TRANSFER}",
    ("UCX_TLS", "rc"): f"UCX_TLS {KV_TRANSFER}",
    ("VLLM_HPU_MULTI_MODEL_CONFIG", "/models.yaml"): "VLLM_HPU_MULTI_MODEL_CONFIG is not supported, because only the "
    "plugin's own server reads this setting, and the runtime does not start that server: remove this setting, and "
    "create a GaudiInference for each model",
    (
        "--distributed-executor-backend",
        "ray",
    ): "--distributed-executor-backend is 'ray', but this runtime starts the ranks "
    "of all pods itself, without Ray: give one of mp, uni",
    (
        "--distributed-executor-backend",
        "external_launcher",
    ): "--distributed-executor-backend is 'external_launcher', but "
    "vLLM then waits for ranks that no pod starts: give one of mp, uni",
    ("--enable-sleep-mode", "true"): "--enable-sleep-mode has no effect here (Lets requests to /sleep move weights to "
    "the host, a path that this server does not have): remove this setting",
    ("ASYNC_SCHEDULING", "1"): "ASYNC_SCHEDULING has no effect here (Becomes --async-scheduling in the launcher of the "
    "ready-made image): use --async-scheduling instead",
    ("--runner", "pooling"): f"--runner is 'pooling', but {POOLING}: give one of auto, generate",
    ("--convert", "embed"): f"--convert is 'embed', but {POOLING}: give one of auto, none",
    ("--convert", "classify"): f"--convert is 'classify', but {POOLING}: give one of auto, none",
    ("--speculative-config", "x" * 100): f"--speculative-config is '{'x' * 80}..': give a JSON object",
}


@pytest.mark.parametrize(("name", "value"), SENTENCES, ids=str)
def test_wrong_setting_has_its_message(name: str, value: str) -> None:
    assert setting_error(name, value) == SENTENCES[name, value]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("VLLM_DEFRAG_THRESHOLD", "0"),
        ("PT_HPU_METRICS_GC_DETAILS", "On"),
        ("--async-scheduling", "no"),
        ("--speculative-config", '{"method": "ngram"}'),
        ("HABANA_LOGS", "/tmp/logs"),
        ("VLLM_DEBUG", "defrag, fwd"),
        ("--kv-offloading-size", "5.0"),
        ("--kv-offloading-backend", "native"),
        ("--distributed-executor-backend", "mp"),
        ("--distributed-executor-backend", "uni"),
        ("OMPI_MCA_btl_vader_single_copy_mechanism", "none"),
    ],
)
def test_valid_setting_is_passed(name: str, value: str) -> None:
    assert setting_error(name, value) is None


def test_wrong_settings_are_reported_sorted_by_name() -> None:
    found = list(setting_errors({"VLLM_USE_V1": "1", "HCCL_SOCKET_IFNAME": "rc", "LOG_LEVEL_ALL": "9"}))
    assert [sentence.split()[0] for sentence in found] == ["LOG_LEVEL_ALL", "VLLM_USE_V1"]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("gpu_memory_utilisation", ["--gpu-memory-utilization", "GPU_MEM_UTILIZATION", "--device-memory-utilization"]),
        ("max_seqs", ["--max-num-seqs"]),
        ("PT_LAZY_MODE", ["PT_HPU_LAZY_MODE"]),
    ],
)
def test_nearest_names_ignore_dashes_and_case(name: str, near: list[str]) -> None:
    assert nearest_setting_names(name) == near


@pytest.mark.parametrize("name", [each.name for each in knobs().values() if each.home is not KnobHome.SETTINGS])
def test_every_knob_outside_of_settings_is_refused_with_a_reason(name: str) -> None:
    sentence = setting_error(name, "1")
    assert sentence is not None
    starts = ("is ", "must not be set ", "cannot be set here: ", "has no effect here (")
    assert sentence.removeprefix(f"{name} ").startswith(starts)
    assert ": " in sentence


@pytest.mark.parametrize(
    "argument",
    [
        "--kv-transfer-config={}",
        "--kv_transfer_config={}",
        "--kv-transfer-config.kv_connector=NixlConnector",
        "--kv-transfer-con={}",
    ],
)
def test_unsupported_argument_is_refused_in_every_spelling(argument: str) -> None:
    (sentence,) = argument_errors([argument])
    assert sentence.endswith(f"--kv-transfer-config {KV_TRANSFER}")


@pytest.mark.parametrize(
    "argument", ["--enable-prompt-embeds", "--enable_prompt_embeds=true", "--enable-prompt-e", "--enable-mm-embeds"]
)
def test_arguments_that_accept_tensors_of_clients_are_refused(argument: str) -> None:
    (sentence,) = argument_errors([argument])
    assert re.search(r"--enable-(prompt|mm)-embeds must not be set by users \(Tensors of clients", sentence)


def test_setting_in_extra_args_is_refused_with_its_place() -> None:
    assert list(argument_errors(["--distributed-executor-backend=ray"])) == [
        "--distributed-executor-backend must be set in spec.engine.settings"
    ]


@pytest.mark.parametrize("name", [each.name for each in knobs().values() if each.home is not KnobHome.SETTINGS])
@pytest.mark.parametrize("value", ["1", None])
def test_variable_is_refused_as_the_setting_is(name: str, value: str | None) -> None:
    assert list(variable_errors({name: value})) == [setting_error(name, "1")]


def test_variable_that_settings_may_set_is_refused_with_its_place() -> None:
    assert list(variable_errors({"LOG_LEVEL_ALL": "4"})) == ["LOG_LEVEL_ALL must be set in spec.engine.settings"]


@pytest.mark.parametrize("name", ["HUGGING_FACE_HUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "PROXY_PASSWORD", "TOKEN"])
def test_credential_in_clear_text_is_refused(name: str) -> None:
    assert list(variable_errors({name: "secret"})) == [
        f"{name} is in clear text, so everyone who can read this resource can read it: use valueFrom"
    ]


def test_other_variables_and_references_are_accepted() -> None:
    variables = {"HTTPS_PROXY": "http://proxy:3128", "TOKENIZERS_PARALLELISM": "false", "AWS_SECRET_ACCESS_KEY": None}
    assert list(variable_errors(variables)) == []


def test_unknown_variable_with_the_prefix_of_a_knob_is_reported() -> None:
    names = ["VLLM_DEFRAG_TRESHOLD", "PT_HPU_LAZY_MOD", "HABANA_LOG", "VLLM_ZZZZ", "MY_OWN"]
    may_do_nothing = "is in no table of knobs, so it may have no effect:"
    assert list(unknown_variable_errors(names)) == [
        f"VLLM_DEFRAG_TRESHOLD {may_do_nothing} the nearest names are VLLM_DEFRAG_THRESHOLD, VLLM_DEFRAG",
        f"PT_HPU_LAZY_MOD {may_do_nothing} the nearest name is PT_HPU_LAZY_MODE (set by spec.engine.executionMode)",
        f"HABANA_LOG {may_do_nothing} the nearest name is HABANA_LOGS",
        f"VLLM_ZZZZ {may_do_nothing} no known name is similar",
    ]


@pytest.mark.parametrize("name", ["VLLM_SERVER_DEV_MODE", "--enable-sleep-mode", "--uvicorn-log-level", "DRY_RUN"])
def test_setting_without_any_effect_is_refused(name: str) -> None:
    assert str(setting_error(name, "1")).startswith(f"{name} has no effect here (")


def test_no_message_recommends_offloading_of_kv_blocks() -> None:
    assert [name for name in knobs() if "offload" in str(setting_error(name, "1")).removeprefix(name)] == []


SETTINGS = st.sampled_from([each for each in knobs().values() if each.home is KnobHome.SETTINGS])


@given(st.one_of(st.text(max_size=128), st.sampled_from(list(knobs()))), st.text(max_size=64))
def test_any_name_and_value_is_checked_without_an_exception(name: str, value: str) -> None:
    sentence = setting_error(name, value)
    assert sentence is None or len(sentence) < 700


@given(SETTINGS, st.one_of(st.integers().map(str), st.booleans().map(str), st.text(max_size=20)))
def test_conversion_of_an_accepted_value_is_idempotent(knob: Knob, value: str) -> None:
    try:
        word = to_engine_value_of_knob(knob, value)
    except ValueError:
        return
    assert to_engine_value_of_knob(knob, word) == word


def test_list_items_are_passed_without_spaces() -> None:
    assert to_engine_value_of_knob(knobs()["VLLM_DEBUG"], "defrag, fwd") == "defrag,fwd"
