"""The arguments of vLLM: from the renderer, for our worker, and for a CPU."""

from pathlib import Path
from typing import Any

import pytest

from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.engines.vllm.launch import WORKERS, engine_arguments, set_trace_protocol
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.knobs.render import render_engine_options
from tests.unit.runtime.engines.vllm.configs import cpu_config
from tests.unit.runtime.knobs.configs import vllm_config


def extra_arguments(config: RuntimeConfig, kv_cache_bytes: int | None = None) -> list[str]:
    """Return the arguments that follow the arguments of the renderer."""
    rendered = render_engine_options(config).args
    arguments = engine_arguments(config, kv_cache_bytes)
    assert arguments[: len(rendered)] == rendered
    return list(arguments[len(rendered) :])


def test_card_uses_our_worker_class() -> None:
    assert (
        extra_arguments(vllm_config())[0]
        == "--worker-cls=gaudi_runtime.engines.vllm.workers.hpu_worker.DrivenHpuWorker"
    )


def test_media_are_not_fetched_without_an_allowed_domain() -> None:
    assert extra_arguments(vllm_config())[1:] == ["--allowed-media-domains=NONE.INVALID"]
    section = {"settings": {"--allowed-media-domains": "images.example"}}
    assert extra_arguments(vllm_config(engine=section))[1:] == []


COLLECTOR = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector.test:4317"}


def traces(environment: dict[str, str], **engine: Any) -> list[str]:
    return [each for each in engine_arguments(vllm_config(engine=engine), None, environment) if "otlp" in each]


def test_configured_collector_is_passed_to_vllm() -> None:
    assert traces(COLLECTOR) == ["--otlp-traces-endpoint=http://collector.test:4317"]
    assert traces({}) == []


def test_collector_in_the_settings_of_vllm_is_kept() -> None:
    given = "--otlp-traces-endpoint=http://other.test:4317"
    name, _, value = given.partition("=")
    assert traces(COLLECTOR, settings={name: value}) == [given]


def test_unsupported_trace_protocol_does_not_end_the_start() -> None:
    assert traces({**COLLECTOR, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}) == []


def test_trace_protocol_is_set_unless_configured() -> None:
    ours, theirs = dict(COLLECTOR), {**COLLECTOR, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"}
    set_trace_protocol(ours)
    set_trace_protocol(theirs)
    name = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
    assert (ours[name], theirs[name]) == ("http/protobuf", "grpc")


@pytest.mark.parametrize("device", WORKERS)
def test_worker_module_defines_the_configured_class(device: str) -> None:
    """The worker module can only be imported by vLLM's processes, so its source is parsed."""
    module, _, name = WORKERS[device].rpartition(".")
    source = Path(__file__).parents[5] / "runtime" / f"{module.replace('.', '/')}.py"
    assert f"class {name}(DrivenWorker, " in source.read_text(encoding="utf-8")


def test_cache_of_a_cpu_is_set_in_bytes(tmp_path: Path) -> None:
    assert "--kv-cache-memory-bytes=4096" in extra_arguments(cpu_config(tmp_path), 4096)


def test_compiling_cpu_disables_the_warm_up_of_vllm(tmp_path: Path) -> None:
    assert extra_arguments(cpu_config(tmp_path), 1)[-1] == "--enforce-eager"


def test_eager_cpu_gets_enforce_eager_once(tmp_path: Path) -> None:
    assert engine_arguments(cpu_config(tmp_path, mode="eager"), 1).count("--enforce-eager") == 1


def test_compiling_card_gets_no_compilation_arguments() -> None:
    assert "--enforce-eager" not in engine_arguments(vllm_config(engine={"executionMode": "torchCompile"}), None)


def test_wrong_setting_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"engine\.settings: VLLM_ENABLE_BUCKETING"):
        engine_arguments(cpu_config(tmp_path, engine={"settings": {"VLLM_ENABLE_BUCKETING": "false"}}), 1)
