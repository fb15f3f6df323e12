"""What admission says of the manifests in examples/, which people copy."""

from pathlib import Path

import pytest
import yaml

from gaudi_operator.core.checks import first_violation
from gaudi_operator.core.doubts import doubt, estimated_violation
from gaudi_operator.core.inference import Inference, read_inference
from gaudi_operator.core.settings_check import why_settings_are_ignored
from tests.unit.operator.core.resources import DEFAULTS

FOLDER = Path(__file__).parents[4] / "examples"
EXAMPLES = sorted(FOLDER.glob("*.yaml"))
RUNNABLE = (
    "llama-3.1-70b-tensor-parallel",
    "llama-3.1-8b-gaudi3",
    "padding-aware-buckets",
    "seed-llama-3.1-8b-gaudi2-sim",
    "simulation",
    "tiny-torch-cpu",
)


def example(path: Path) -> Inference:
    manifest = yaml.safe_load(path.read_text())
    return read_inference({**manifest, "metadata": {"namespace": "default", "uid": "u", **manifest["metadata"]}})


@pytest.mark.parametrize("name", RUNNABLE)
def test_example_for_this_release_is_accepted(name: str) -> None:
    assert first_violation(example(FOLDER / f"{name}.yaml"), DEFAULTS) is None


@pytest.mark.parametrize("path", [path for path in EXAMPLES if path.stem not in RUNNABLE], ids=lambda path: path.stem)
def test_other_example_waits_for_a_release_and_for_nothing_else(path: Path) -> None:
    found = first_violation(example(path), DEFAULTS)
    assert found is not None
    assert found.reason == "NotBuilt"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_no_estimate_speaks_against_an_example(path: Path) -> None:
    assert estimated_violation(example(path)) is None
    assert doubt(example(path)) is None


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_setting_of_an_example_has_an_effect(path: Path) -> None:
    assert why_settings_are_ignored(example(path)) is None
