"""The tiny checkpoint of the examples: what the fetch leaves of it is what the torch engine opens."""

from pathlib import Path

from examples.make_tiny_checkpoint import make_checkpoint
from gaudi_runtime.artifacts.sources.weights import check_weights
from gaudi_runtime.engines.torch.checkpoint import open_checkpoint
from tests.unit.runtime.artifacts.sources.conftest import Site


def test_fetched_checkpoint_is_one_that_the_torch_engine_opens(site: Site, tmp_path: Path) -> None:
    made = make_checkpoint(tmp_path / "made")
    site.hub.files = {file.name: file.read_bytes() for file in made.iterdir()}
    assert open_checkpoint(str(site.fetch())).config.model_type == "qwen3"


def test_files_that_safetensors_itself_wrote_are_whole(tmp_path: Path) -> None:
    check_weights(make_checkpoint(tmp_path / "made"))
