"""The chart's alerts and dashboards in a real Prometheus, during the life of a model.

The model starts, is upgraded under load, and is rolled back. At the end, every panel must have shown data.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from demo import install
from demo.install import ROOT, Installation
from demo.load import Traffic
from demo.resource import Resource, is_ready, is_stalled
from localcluster import tools
from localcluster.sandbox.processes import wait_until
from scripts.dashboards import DASHBOARDS

NAME = "walkthrough"
PATIENCE = 180
RUNBOOKS = (ROOT / "docs" / "how-to" / "troubleshoot.md").read_text()
FINER = {"bucketing": {"prompt": {"query": {"min": 128, "step": 128}}}}
TOO_FINE = {"bucketing": {"prompt": {"query": {"min": 32, "step": 32}}}}
"""A plan whose graphs do not fit: examples/upgrade/2-bad-plan.sh."""
FIRING = f'ALERTS{{alertstate="firing", name=~"{NAME}|"}}'
Query = Callable[[str], list[dict[str, Any]]]

pytestmark = pytest.mark.timeout(1800)  # the first build of the images downloads torch


def panel_queries() -> list[str]:
    """Return every query of every panel for the model of this test."""
    panels = [panel for each in DASHBOARDS.values() for panel in each.panels]
    queries = [query for panel in panels for query in panel.queries.values()]
    return [query.replace("$__rate_interval", "1m").replace('"$name"', f'"{NAME}"') for query in queries]


def firing(prometheus: Query) -> set[str]:
    return {each["metric"]["alertname"] for each in prometheus(FIRING)}


@pytest.fixture(scope="module")
def model(installed: Installation, namespace: str, prometheus: Query) -> Resource:
    """The Ready model of examples/upgrade, after the alerts of its first start have ended."""
    wait_until(lambda: bool(prometheus("gaudi_operator_leader == 1")), "Prometheus to scrape the operator", PATIENCE)
    manifest = ROOT / "examples" / "upgrade" / "walkthrough.yaml"
    resource = Resource(str(installed.kubeconfig), namespace, NAME)
    installed.kubectl("apply", "--namespace", namespace, "-f", str(manifest))
    next(state for state in resource.states(PATIENCE) if is_ready(state))
    wait_until(lambda: not firing(prometheus), "the alerts of the first start to end", PATIENCE)
    return resource


@pytest.fixture
def traffic(installed: Installation, namespace: str, model: Resource) -> Traffic:
    started = Traffic(installed.kubectl, namespace, install.RUNTIME_IMAGE)
    started.start(NAME, NAME, pause=0.2)
    return started


def test_good_upgrade_under_load_raises_no_alert(prometheus: Query, model: Resource, traffic: Traffic) -> None:
    since = time.monotonic()
    model.patch(FINER)
    next(state for state in model.states(PATIENCE) if is_ready(state))
    served = f'gaudi_requests_total{{inference_gaudi_dev_name="{NAME}", code="200"}} > 0'
    wait_until(lambda: len(prometheus(served)) >= 2, "answers of the new pods in Prometheus", PATIENCE)
    seconds = int(time.monotonic() - since)
    assert [each["metric"] for each in prometheus(f"count_over_time({FIRING}[{seconds}s])")] == []
    assert [answer.error for answer in traffic.stop() if answer.error] == []


def test_runbook_resolves_the_alert_of_a_rollback(
    installed: Installation, prometheus: Query, namespace: str, model: Resource
) -> None:
    model.patch(TOO_FINE)
    next(state for state in model.states(PATIENCE) if is_stalled(state, "RolledBack"))
    wait_until(lambda: firing(prometheus) == {"GaudiModelRolledBack"}, "the only alert of a rollback", PATIENCE)
    section = RUNBOOKS.partition("### GaudiModelRolledBack\n")[2].partition("\n### ")[0]
    command = next(each for each in re.findall(r"`(kubectl [^`]+)`", section) if each.endswith("undo NAME -n NS"))
    path = f"{Path(sys.executable).parent}:{tools().bin_dir}:{os.environ['PATH']}"
    subprocess.run(
        command.replace("NAME", NAME).replace("NS", namespace).split(),
        env={**os.environ, "PATH": path, "KUBECONFIG": str(installed.kubeconfig)},
        check=True,
    )
    next(state for state in model.states(PATIENCE) if is_ready(state))
    wait_until(lambda: not firing(prometheus), "the alert to end after the runbook's command", PATIENCE)


@pytest.mark.parametrize("query", panel_queries())
def test_query_of_every_panel_returns_data(query: str, prometheus: Query, namespace: str, model: Resource) -> None:
    """Check that every panel showed a number at some time. An empty table is correct if no resource needs an action."""
    promql = query.replace("$namespace", namespace)
    assert prometheus(f"count_over_time((({promql}) >= -Inf)[10m:1s])")
