"""The tiny checkpoint of the examples passes the checks after a fetch."""

from pathlib import Path

from examples.make_tiny_checkpoint import make_checkpoint
from gaudi_runtime.artifacts.sources.weights import check_weights


def test_files_written_by_safetensors_are_complete(tmp_path: Path) -> None:
    check_weights(make_checkpoint(tmp_path / "made"))
