"""Resources and installation defaults for the tests of core."""

from datetime import UTC, datetime
from typing import Any

from gaudi_operator.core.inference import Inference, read_inference
from gaudi_operator.core.installation import InstallationDefaults, InstallationHostPath
from gaudi_operator.core.rollout.revision import RevisionInputs, revision_inputs
from tests.support.builders import Object, gaudi_inference

NOW = datetime(2026, 8, 1, 12, 0, 0, tzinfo=UTC)
ANY_HOST_PATH = (InstallationHostPath("/"),)
DEFAULTS = InstallationDefaults(
    runtime_image="runtime:1", hpu_image="runtime-hpu:1", allow_host_path=ANY_HOST_PATH, allow_simulation=True
)
CARD = {"generation": "gaudi3", "deviceMemory": None}


def resource(generation: int = 1, annotations: dict[str, str] | None = None, **overrides: Any) -> Object:
    """Return a GaudiInference `tiny` in namespace `models` as the API server stores it, changed by `overrides`."""
    manifest = gaudi_inference("tiny", "models", **overrides)
    manifest["metadata"] |= {"uid": "uid-of-tiny", "generation": generation, "annotations": annotations or {}}
    return manifest


def inference(annotations: dict[str, str] | None = None, **overrides: Any) -> Inference:
    """Return the resource `tiny` as a parsed GaudiInference."""
    return read_inference(resource(annotations=annotations, **overrides))


def inputs(**overrides: Any) -> RevisionInputs:
    """Return the revision inputs of the resource `tiny`."""
    return revision_inputs(inference(**overrides))
