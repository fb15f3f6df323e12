"""What the tests with a real vLLM share."""

from pathlib import Path

import pytest

from examples.make_tiny_checkpoint import make_checkpoint


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama."""
    return make_checkpoint(tmp_path_factory.mktemp("checkpoint") / "llama", "llama")
