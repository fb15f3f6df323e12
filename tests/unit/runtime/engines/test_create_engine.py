"""The environment variables of the engine's process."""

from gaudi_runtime.engines.create_engine import set_engine_environment
from tests.unit.runtime.knobs.configs import vllm_config


def test_knobs_are_set_in_the_environment() -> None:
    environment: dict[str, str] = {}
    set_engine_environment(vllm_config(engine={"settings": {"HCCL_SOCKET_IFNAME": "eth0"}}), environment)
    assert (environment["HCCL_SOCKET_IFNAME"], environment["PT_HPU_LAZY_MODE"]) == ("eth0", "1")


def test_existing_environment_variable_has_precedence() -> None:
    environment = {"LOG_LEVEL_ALL": "6", "PATH": "/bin"}
    set_engine_environment(vllm_config(engine={"settings": {"LOG_LEVEL_ALL": "3"}}), environment)
    assert (environment["LOG_LEVEL_ALL"], environment["PATH"]) == ("6", "/bin")


def test_api_key_is_set_without_its_newline() -> None:
    environment = {"VLLM_API_KEY": "sk-key\n"}
    set_engine_environment(vllm_config(), environment)
    assert environment["VLLM_API_KEY"] == "sk-key"
