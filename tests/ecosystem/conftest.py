"""The cluster of the end-to-end tests, for tests with third-party programs."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from demo.install import Installation
from tests.e2e.conftest import apply, installed, namespace, wait_ready
from tests.ecosystem.parts import install_prometheus, query_prometheus

__all__ = ["apply", "installed", "namespace", "wait_ready"]


@pytest.fixture(scope="session")
def prometheus(installed: Installation) -> Callable[[str], list[dict[str, Any]]]:
    """Query a Prometheus with the chart's alerts. The alerts wait for seconds instead of minutes."""
    install_prometheus(installed)
    return partial(query_prometheus, installed)
