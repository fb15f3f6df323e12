"""Fixtures of the tests with the plugin's own code."""

import os
from pathlib import Path

os.environ.setdefault("PLAYED_CARD_BYTES", str(64 << 20))

import pytest

from examples.make_tiny_checkpoint import make_checkpoint
from tests.plugin.engine import TIME_LIMIT, call_in_fork, import_all


def pytest_itemcollected(item: pytest.Item) -> None:
    """Extend the time limit of tests, because the first test of a run waits for the start of the engine."""
    if not item.get_closest_marker("timeout"):
        item.add_marker(pytest.mark.timeout(TIME_LIMIT + 60))


@pytest.fixture(scope="session", autouse=True)
def imported() -> None:
    """Import vLLM and the plugin."""
    import_all()


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Tiny checkpoints, one for each model family."""
    folder = tmp_path_factory.mktemp("checkpoints")
    return {family: write_checkpoint(folder / family, family) for family in ("llama", "qwen3")}


def write_checkpoint(folder: Path, family: str) -> Path:
    """Write a checkpoint of this family."""
    folder.mkdir()
    return Path(call_in_fork(lambda: str(make_checkpoint(folder, family)), folder))
