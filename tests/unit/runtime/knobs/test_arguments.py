"""engine.extraArgs does not bypass the checks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.knobs.setting_errors import argument_errors
from gaudi_runtime.knobs.table import KnobKind, knobs

NO_ARGUMENT = "is not the value of an argument: write --name=value"
MALFORMED = "is not a valid argument: write --name or --name=value with the long name"
REFUSED = {
    "--async-scheduling": "--async-scheduling must be set in spec.engine.settings",
    "--api-key": "--api-key must not be set by users (The key would be visible in the list of processes): "
    "use the field spec.server.apiKeySecretRef instead",
    "-tp": f"-tp {MALFORMED}",
    "-O3": f"-O3 {MALFORMED}",
    "--": f"-- {MALFORMED}",
    "--=1": f"--=1 {MALFORMED}",
    "--a b": f"--a b {MALFORMED}",
    "--a=b\nc": f"--a=b\\nc {MALFORMED}",
    "meta-llama/other": f"meta-llama/other {NO_ARGUMENT}",
}
INSTEAD = {
    "--max-model-len=8192": ("--max-model-len", "spec.model.maxModelLen"),
    "--max_model_len=8192": ("--max-model-len", "spec.model.maxModelLen"),
    "--max-model=8192": ("--max-model is short for --max-model-len. --max-model-len", "spec.model.maxModelLen"),
    "--no-enable-prefix-caching": ("--enable-prefix-caching", "spec.engine.prefixCaching"),
    "--speculative-config.method=ngram": ("--speculative-config", "spec.engine.settings"),
    "--num_speculative_tokens=4": ("--num_speculative_tokens", "--speculative-config"),
    "--port=80": ("--port", "spec.service.port"),
    "--worker-cls=mine.Worker": ("--worker-cls", "spec.engine.name"),
    "--lora-modules=a=/a": ("--lora-modules", "spec.model.lora.adapters"),
    "--compilation-config.level=3": ("--compilation-config", "spec.engine.executionMode"),
    "--config=/etc/more.yaml": ("--config", "spec.engine.extraArgs"),
}
"""An argument, and its replacement in the message."""


@pytest.mark.parametrize("argument", REFUSED)
def test_refused_argument_has_its_message(argument: str) -> None:
    assert list(argument_errors([argument])) == [REFUSED[argument]]


@pytest.mark.parametrize("argument", INSTEAD)
def test_refused_argument_names_its_replacement(argument: str) -> None:
    name, instead = INSTEAD[argument]
    (said,) = argument_errors([argument])
    assert said.startswith(f"{name} ")
    assert instead in said.removeprefix(name).replace(":", "").split()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--cpu-offload-gb=4"],
        ["--cpu-offload-gb", "4"],
        ["--watermark", "-0.1"],
        ["--attention-config.backend=CUSTOM"],
        ["--lora-target-modules", "q_proj", "v_proj", "--language-model-only"],
        ["--of_a_later_release"],
    ],
    ids=" ".join,
)
def test_unknown_argument_is_passed(arguments: list[str]) -> None:
    assert list(argument_errors(arguments)) == []


def test_value_that_is_no_argument_is_refused() -> None:
    assert list(argument_errors(["--cpu-offload-gb=4", "5"])) == [f"5 {NO_ARGUMENT}"]


def test_each_wrong_argument_is_reported() -> None:
    assert len(list(argument_errors(["--port=1", "--host=::", "--cpu-offload-gb=4", "-q", "fp8"]))) == 3


KNOWN = [knob.name for knob in knobs().values() if knob.kind is KnobKind.ARGUMENT]


@pytest.mark.parametrize("name", KNOWN)
def test_every_argument_of_the_table_is_refused(name: str) -> None:
    assert len(list(argument_errors([f"{name}=1"]))) == 1


@given(st.lists(st.text(max_size=20), max_size=4))
def test_any_arguments_are_checked_without_an_exception(words: list[str]) -> None:
    assert all(sentence for sentence in argument_errors(words))
