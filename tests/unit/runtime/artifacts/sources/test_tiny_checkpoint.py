"""The torch engine opens the tiny checkpoint of the examples after a fetch."""

from pathlib import Path

from examples.make_tiny_checkpoint import make_checkpoint
from gaudi_runtime.artifacts.sources.weights import check_weights
from gaudi_runtime.engines.torch.checkpoint import open_checkpoint
from tests.unit.runtime.artifacts.sources.conftest import Site


def test_torch_engine_opens_the_fetched_checkpoint(site: Site, tmp_path: Path) -> None:
    made = make_checkpoint(tmp_path / "made")
    site.hub.files = {file.name: file.read_bytes() for file in made.iterdir()}
    assert open_checkpoint(str(site.fetch())).config.model_type == "qwen3"


def test_files_written_by_safetensors_are_complete(tmp_path: Path) -> None:
    check_weights(make_checkpoint(tmp_path / "made"))
