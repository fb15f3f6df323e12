"""The engine's command line in the output of `gaudi-plan forecast`."""

import shlex
from typing import Any

from gaudi_runtime.catalog.release_pairs import PAIRS, RELEASES
from tests.unit.operator.cli.plan.asked import INFERENCE, RUNTIME_CONFIG, answer, plan, refusal

DEPLOYMENT: dict[str, Any] = {
    **INFERENCE,
    "spec": {
        "model": {
            "source": {"persistentVolumeClaim": {"claimName": "models"}},
            "servedNames": ["my chat", "chat"],
            "maxModelLen": 256,
        },
        "accelerator": {"generation": "gaudi2"},
        "engine": {
            "maxNumSeqs": 2,
            "settings": {"HCCL_SOCKET_IFNAME": "eth0,eth1"},
            "extraArgs": ["--cpu-offload-gb", "4"],
        },
    },
}


def printed_arguments(document: object) -> list[str]:
    """Return the arguments of the printed command, parsed as a shell parses them."""
    _, _, command = plan(document, command="forecast").stdout.partition("started with:\n")
    return shlex.split(command.replace("\\\n", " "))


def test_printed_command_can_be_run_in_a_shell() -> None:
    words = printed_arguments(DEPLOYMENT)
    found = answer(DEPLOYMENT, command="forecast")["startedWith"]
    at = words.index("vllm")
    assert words[:at] == [f"{name}={value}" for name, value in found["environment"].items()]
    assert words[at:] == ["vllm", "serve", *found["arguments"]]


def test_command_has_settings_names_and_extra_arguments() -> None:
    words = printed_arguments(DEPLOYMENT)
    assert {"HCCL_SOCKET_IFNAME=eth0,eth1", "PT_HPU_LAZY_MODE=0", "--max-num-seqs=2"} <= set(words)
    assert words[-5:] == ["--served-model-name", "my chat", "chat", "--cpu-offload-gb", "4"]


def test_forecast_lists_supported_release_pairs() -> None:
    assert f"for {RELEASES}\n" in plan(DEPLOYMENT, command="forecast").stdout
    pairs = answer(DEPLOYMENT, command="forecast")["pairs"]
    assert [(each["vllm"], each["proof"], each["image"]) for each in pairs] == [
        (pair.vllm, pair.proof, pair.image) for pair in PAIRS
    ]


def test_forecast_for_a_cpu_has_no_release_pairs() -> None:
    spec = {**DEPLOYMENT["spec"], "accelerator": {"generation": "none", "deviceMemory": "1Gi"}}
    spec["engine"] = {"executionMode": "Eager"}
    assert answer({**DEPLOYMENT, "spec": spec}, command="forecast")["pairs"] is None


def test_no_command_is_printed_for_the_sim_engine() -> None:
    assert printed_arguments(RUNTIME_CONFIG) == []


def test_argument_owned_by_a_field_is_refused() -> None:
    spec = {**DEPLOYMENT["spec"], "engine": {"extraArgs": ["--port=1"]}}
    assert "--port cannot be set here: use spec.service.port instead" in refusal(
        {**DEPLOYMENT, "spec": spec}, command="forecast"
    )


def test_hint_about_tensor_parallelism_is_a_warning() -> None:
    model = {"source": {"huggingFace": {"repo": "meta-llama/Llama-3.1-70B"}}, "maxModelLen": 4096}
    spec = {**DEPLOYMENT["spec"], "model": model, "engine": {}}
    found = answer({**DEPLOYMENT, "spec": spec}, command="forecast")
    (hint,) = (said for said in found["warnings"] if "validated" in said)
    assert {"meta-llama/Llama-3.1-70B", "gaudi2"} <= set(hint.split())
    assert "tensor parallel 2 or 4 or 8" in hint
    assert "spec.parallelism.tensor is 1" in hint
