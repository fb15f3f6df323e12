"""Fixtures of the tests with a real vLLM."""

from pathlib import Path

import pytest

from examples.make_tiny_checkpoint import make_checkpoint

BUSY = 900
"""The time limit in seconds. A process that imports vLLM and compiles is slow on a busy machine."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Set a time limit for each test. Only a test that hangs exceeds this limit."""
    if not item.get_closest_marker("timeout"):
        item.add_marker(pytest.mark.timeout(BUSY))


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of a tiny Llama."""
    return make_checkpoint(tmp_path_factory.mktemp("checkpoint") / "llama", "llama")
