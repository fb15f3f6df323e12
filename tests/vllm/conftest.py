"""What the tests with a real vLLM share."""

from pathlib import Path

import pytest

from examples.make_tiny_checkpoint import make_checkpoint

BUSY = 900
"""Seconds: a process that imports vLLM and compiles has whatever a machine with other work leaves it."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """A limit that ends what hangs, and nothing else."""
    if not item.get_closest_marker("timeout"):
        item.add_marker(pytest.mark.timeout(BUSY))


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama."""
    return make_checkpoint(tmp_path_factory.mktemp("checkpoint") / "llama", "llama")
