"""A fast model port for each test module."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.unit.runtime.configs import sim_config
from tests.unit.runtime.serving import Served, served


@pytest_asyncio.fixture
async def api() -> AsyncIterator[Served]:
    """A model port whose engine answers without delay."""
    async with served(sim_config()) as running:
        yield running
