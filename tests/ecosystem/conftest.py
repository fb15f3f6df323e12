"""The cluster of the end-to-end tests, for walks with parts of others."""

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest

from demo.install import Installed
from tests.e2e.conftest import apply, installed, namespace, wait_ready
from tests.ecosystem.parts import NAMESPACE, install_prometheus

__all__ = ["apply", "installed", "namespace", "wait_ready"]


@pytest.fixture(scope="session", name="ask")
def asked(installed: Installed) -> Callable[[str], list[dict[str, Any]]]:
    """What Prometheus answers to a query; it has the chart's alerts, which wait for seconds instead of minutes."""
    install_prometheus(installed)
    server = f"/api/v1/namespaces/{NAMESPACE}/services/prometheus:9090/proxy"

    def _ask(query: str) -> list[dict[str, Any]]:
        answer = json.loads(installed.kubectl("get", "--raw", f"{server}/api/v1/query?{urlencode({'query': query})}"))
        found: list[dict[str, Any]] = answer["data"]["result"]
        return found

    return _ask
