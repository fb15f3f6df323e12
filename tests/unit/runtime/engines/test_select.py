"""The variables of the process that an engine runs in."""

from gaudi_runtime.engines.select import tell_environment
from tests.unit.runtime.knobs.configs import vllm_config


def test_engine_finds_its_knobs_in_the_environment() -> None:
    environment: dict[str, str] = {}
    tell_environment(vllm_config(engine={"settings": {"HCCL_SOCKET_IFNAME": "eth0"}}), environment)
    assert (environment["HCCL_SOCKET_IFNAME"], environment["PT_HPU_LAZY_MODE"]) == ("eth0", "1")


def test_variable_of_the_container_stays() -> None:
    environment = {"LOG_LEVEL_ALL": "6", "PATH": "/bin"}
    tell_environment(vllm_config(engine={"settings": {"LOG_LEVEL_ALL": "3"}}), environment)
    assert (environment["LOG_LEVEL_ALL"], environment["PATH"]) == ("6", "/bin")


def test_key_of_the_api_is_told_without_its_line_end() -> None:
    environment = {"VLLM_API_KEY": "sk-key\n"}
    tell_environment(vllm_config(), environment)
    assert environment["VLLM_API_KEY"] == "sk-key"
