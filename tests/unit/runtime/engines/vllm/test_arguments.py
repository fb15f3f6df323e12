"""The arguments of vLLM: what the renderer says, our worker, and what a CPU needs besides."""

from pathlib import Path
from typing import Any

import pytest

from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.engines.vllm.launch import WORKERS, engine_arguments, tell_protocol
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.knobs.render import render_engine_options
from tests.unit.runtime.engines.vllm.configs import cpu_config
from tests.unit.runtime.knobs.configs import vllm_config


def added(config: RuntimeConfig, kv_cache_bytes: int | None = None) -> list[str]:
    """What stands behind the arguments of the renderer."""
    rendered = render_engine_options(config).args
    arguments = engine_arguments(config, kv_cache_bytes)
    assert arguments[: len(rendered)] == rendered
    return list(arguments[len(rendered) :])


def test_a_card_has_our_worker_over_the_plugins() -> None:
    assert added(vllm_config())[0] == "--worker-cls=gaudi_runtime.engines.vllm.workers.hpu_worker.DrivenHpuWorker"


def test_media_are_fetched_from_nowhere_unless_a_domain_is_said() -> None:
    assert added(vllm_config())[1:] == ["--allowed-media-domains=NONE.INVALID"]
    told = {"settings": {"--allowed-media-domains": "images.example"}}
    assert added(vllm_config(engine=told))[1:] == []


COLLECTOR = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector.test:4317"}


def traces(environment: dict[str, str], **engine: Any) -> list[str]:
    return [each for each in engine_arguments(vllm_config(engine=engine), None, environment) if "otlp" in each]


def test_vllm_sends_its_traces_where_ours_go() -> None:
    assert traces(COLLECTOR) == ["--otlp-traces-endpoint=http://collector.test:4317"]
    assert traces({}) == []


def test_collector_that_vllm_is_given_by_hand_counts() -> None:
    given = "--otlp-traces-endpoint=http://other.test:4317"
    name, _, value = given.partition("=")
    assert traces(COLLECTOR, settings={name: value}) == [given]


def test_protocol_that_vllm_does_not_speak_ends_no_start() -> None:
    assert traces({**COLLECTOR, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}) == []


def test_protocol_of_traces_is_told_unless_somebody_said_it() -> None:
    ours, theirs = dict(COLLECTOR), {**COLLECTOR, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"}
    tell_protocol(ours)
    tell_protocol(theirs)
    name = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
    assert (ours[name], theirs[name]) == ("http/protobuf", "grpc")


@pytest.mark.parametrize("device", WORKERS)
def test_the_worker_stands_where_its_name_says(device: str) -> None:
    """Only vLLM's own processes may import it, so its source is read."""
    module, _, name = WORKERS[device].rpartition(".")
    source = Path(__file__).parents[5] / "runtime" / f"{module.replace('.', '/')}.py"
    assert f"class {name}(DrivenWorker, " in source.read_text(encoding="utf-8")


def test_the_cache_of_a_cpu_is_told_in_bytes(tmp_path: Path) -> None:
    assert "--kv-cache-memory-bytes=4096" in added(cpu_config(tmp_path), 4096)


def test_cpu_that_compiles_is_told_to_leave_it_to_us(tmp_path: Path) -> None:
    assert added(cpu_config(tmp_path), 1)[-1] == "--enforce-eager"


def test_an_eager_cpu_is_told_so_once(tmp_path: Path) -> None:
    assert engine_arguments(cpu_config(tmp_path, mode="eager"), 1).count("--enforce-eager") == 1


def test_a_card_that_compiles_is_left_alone() -> None:
    assert "--enforce-eager" not in engine_arguments(vllm_config(engine={"executionMode": "torchCompile"}), None)


def test_a_wrong_setting_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"engine\.settings: VLLM_ENABLE_BUCKETING"):
        engine_arguments(cpu_config(tmp_path, engine={"settings": {"VLLM_ENABLE_BUCKETING": "false"}}), 1)
