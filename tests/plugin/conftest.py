"""What the runs on the plugin's own code share."""

import os
from pathlib import Path

os.environ.setdefault("PLAYED_CARD_BYTES", str(64 << 20))

import pytest

from examples.make_tiny_checkpoint import make_checkpoint
from tests.plugin.engine import PATIENCE, forked, import_all


def pytest_itemcollected(item: pytest.Item) -> None:
    """The first test of a run waits for its start."""
    if not item.get_closest_marker("timeout"):
        item.add_marker(pytest.mark.timeout(PATIENCE + 60))


@pytest.fixture(scope="session", autouse=True)
def imported() -> None:
    """vLLM and the plugin."""
    import_all()


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A tiny model of each family."""
    folder = tmp_path_factory.mktemp("checkpoints")
    return {family: made(folder / family, family) for family in ("llama", "qwen3")}


def made(folder: Path, family: str) -> Path:
    """A checkpoint."""
    folder.mkdir()
    return Path(forked(lambda: str(make_checkpoint(folder, family)), folder))
