"""docs/how-to/running-vllm.md: its manifests are accepted and have the described effect."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gaudi_operator.core.admission.engine_settings import engine_policy_check, why_engine_settings_are_ignored
from gaudi_operator.core.admission.spec_checks import first_spec_violation
from gaudi_operator.core.inference import Inference
from gaudi_operator.core.quantities import parse_byte_quantity
from gaudi_operator.core.rendering.pod_volumes import shared_memory_volume_size
from gaudi_operator.core.rendering.runtime_config import runtime_config
from gaudi_runtime.knobs.render import render_engine_options
from tests.support.builders import merged
from tests.unit.operator.core.resources import CARD, DEFAULTS, inference

ROOT = Path(__file__).parents[5]
PAGE = (ROOT / "docs" / "how-to" / "running-vllm.md").read_text()
FRAGMENTS = {
    title: yaml.safe_load(text)["spec"]
    for title, text in re.findall(r"^### ([^\n]+)\n(?:(?!^###).)*?```yaml\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)
}
FLAGS = {
    "FP8": "--quantization=inc",
    "Several cards": "--tensor-parallel-size=8",
    "Long context": "--max-num-batched-tokens=4096",
    "Adapters": "sql=/adapters/0/sql",
    "Tools, reasoning, chat templates": "--reasoning-parser=deepseek_r1",
    "Images in prompts": '--limit-mm-per-prompt={"audio": 1, "image": 2, "video": 0}',
}


def variant_inference(fragment: dict[str, Any]) -> Inference:
    base = {"accelerator": CARD, "engine": {"name": "vllm", "blockSize": 128}, "model": {"maxModelLen": 4096}}
    return inference(**merged(base, fragment))


def test_every_variant_has_an_expected_flag() -> None:
    assert FRAGMENTS.keys() == FLAGS.keys()


@pytest.mark.parametrize("title", FLAGS)
def test_variant_is_accepted_and_rendered(title: str) -> None:
    found = variant_inference(FRAGMENTS[title])
    assert first_spec_violation(found, DEFAULTS) is None
    assert engine_policy_check(found).run() is None
    assert FLAGS[title] in render_engine_options(runtime_config(found)).args


@pytest.mark.parametrize("title", FLAGS)
def test_every_setting_of_a_variant_has_an_effect(title: str) -> None:
    assert why_engine_settings_are_ignored(variant_inference(FRAGMENTS[title])) is None


def test_page_links_every_example() -> None:
    names = {path.name for path in (ROOT / "examples" / "vllm").glob("*.yaml")}
    assert set(re.findall(r"\(\.\./\.\./examples/vllm/([^)]+)\)", PAGE)) == names


def test_shared_memory_holds_the_queues_of_eight_ranks() -> None:
    eight = variant_inference({"parallelism": {"tensor": 8}}).spec
    assert parse_byte_quantity(shared_memory_volume_size(eight)) >= (160 + 8 * 240) * 2**20
