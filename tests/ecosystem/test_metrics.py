"""The real Prometheus and prometheus-adapter with the configuration of scaling.md and metrics.md.

Manifests, rules and queries are extracted from these pages. The GaudiInference has the same name as in the pages.
"""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from demo import install
from demo.install import ROOT, Installation
from demo.load import Traffic
from demo.resource import Resource, condition
from localcluster.sandbox.processes import wait_until
from tests.ecosystem.parts import ADAPTER, NAMESPACE, config_map
from tests.support.metrics import running_requests

NAME = "chat"
PATIENCE = 180
Query = Callable[[str], list[dict[str, Any]]]


def yaml_blocks(page: str) -> list[dict[str, Any]]:
    """Return the YAML blocks of a how-to page."""
    text = (ROOT / "docs" / "how-to" / page).read_text()
    return [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)]


RULES = next(block for block in yaml_blocks("scaling.md") if "rules" in block)
MONITORING = next(block["monitoring"] for block in yaml_blocks("monitoring.md") if "monitoring" in block)
KEDA = next(block for block in yaml_blocks("scaling.md") if block.get("kind") == "ScaledObject")

pytestmark = pytest.mark.timeout(1800)  # the first build of the images downloads torch


OF_OPERATOR, _, OF_RUNTIME = (ROOT / "docs" / "reference" / "metrics.md").read_text().partition("## Of a runtime")


def queries(part: str) -> list[str]:
    """Return the queries in a part of the page, one per line."""
    blocks = re.findall(r"^```\n(.*?)^```", part, re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines()]


@pytest.fixture(scope="module")
def adapter(installed: Installation, prometheus: Query) -> None:
    """Run the adapter with the rules of the page."""
    config_map(installed, ADAPTER.name, {"rules.yaml": yaml.safe_dump(RULES)})
    ADAPTER.install(installed)
    installed.kubectl("wait", "apiservice/v1beta1.custom.metrics.k8s.io", "--for=condition=Available", "--timeout=60s")


@pytest.fixture(scope="module")
def chat(
    installed: Installation,
    namespace: str,
    apply: Callable[..., Resource],
    wait_ready: Callable[[str], None],
    adapter: None,
) -> Resource:
    """A slow model with an autoscaler. The chart admits the monitoring namespace that the page names."""
    autoscaling = {"minReplicas": 1, "maxReplicas": 2, "metrics": [running_requests(2)]}
    slow = {"name": "sim", "settings": {"tokensPerSecond": "5"}}
    ((label, value),) = MONITORING["from"][0]["namespaceSelector"]["matchLabels"].items()
    escaped = label.replace(".", "\\.")
    install.install_chart(installed, f"monitoring.from[0].namespaceSelector.matchLabels.{escaped}={value}")
    resource = apply(NAME, replicas=1, engine=slow, autoscaling=autoscaling)
    wait_ready(NAME)
    return resource


@pytest.fixture
def traffic(installed: Installation, namespace: str, chat: Resource) -> Traffic:
    """Traffic with more concurrent requests than the autoscaler's target for one replica."""
    started = Traffic(installed.kubectl, namespace, install.RUNTIME_IMAGE)
    started.start(NAME, NAME, workers=4, max_tokens=20)
    return started


def test_autoscaler_scales_by_requests_with_the_documented_rule(
    prometheus: Query, namespace: str, chat: Resource, traffic: Traffic
) -> None:
    states = chat.states(PATIENCE)
    asking = (
        state for state in states if " requests spec.replicas: 2 " in condition(state, "AutoscalerActive")["message"]
    )
    scaled = next(state for state in asking if state["status"]["readyReplicas"] == 2)
    assert condition(scaled, "AutoscalerActive")["status"] == "True"
    assert scaled["spec"]["replicas"] == 2

    scraped = f'up{{job="runtimes", namespace="{namespace}", pod=~"{NAME}-.*"}} == 1'
    wait_until(lambda: len(prometheus(scraped)) == 2, "Prometheus to scrape both pods", PATIENCE)
    (trigger,) = KEDA["spec"]["triggers"]
    query = trigger["metadata"]["query"].replace("default", namespace)
    wait_until(lambda: [load["value"][1] for load in prometheus(query)] == ["4"], "KEDA's query to count all", PATIENCE)
    assert [answer.error for answer in traffic.stop() if answer.error] == []


def test_documented_policy_selects_prometheus_and_the_ports_of_pods(
    installed: Installation, namespace: str, prometheus: Query, chat: Resource
) -> None:
    """Check only selectors and ports, because this node does not enforce policies."""

    def selected(kind: str, selector: dict[str, dict[str, str]]) -> list[dict[str, Any]]:
        labels = ",".join(f"{key}={value}" for key, value in selector["matchLabels"].items())
        listed = installed.kubectl("get", kind, "--namespace", namespace, "--selector", labels, "--output", "json")
        found: list[dict[str, Any]] = json.loads(listed)["items"]
        return found

    policy = json.loads(installed.kubectl("get", "networkpolicy", NAME, "--namespace", namespace, "--output", "json"))
    (rule,) = (each for each in policy["spec"]["ingress"] if each["ports"][0]["port"] == "status")
    (_, source), (port,) = rule["from"], rule["ports"]
    assert [each["metadata"]["name"] for each in selected("namespaces", source["namespaceSelector"])] == [NAMESPACE]
    pods = selected("pods", policy["spec"]["podSelector"])
    assert pods
    for pod in pods:
        assert port["port"] in [each["name"] for each in pod["spec"]["containers"][0]["ports"]]


@pytest.mark.parametrize("query", queries(OF_RUNTIME))
def test_documented_query_of_runtimes_has_a_result(query: str, prometheus: Query, chat: Resource) -> None:
    wait_until(lambda: bool(prometheus(query)), f"an answer to {query}", PATIENCE)


def test_operators_are_scraped_and_documented_query_has_a_result(
    prometheus: Query,
) -> None:
    wait_until(lambda: len(prometheus('up{job="operator"} == 1')) == 2, "Prometheus to scrape both operators", PATIENCE)
    query = next(each for each in queries(OF_OPERATOR) if "rate" in each)
    wait_until(lambda: bool(prometheus(query)), f"an answer to {query}", PATIENCE)


def test_operator_series_have_the_namespace_of_the_model(namespace: str, prometheus: Query, chat: Resource) -> None:
    query = f'gaudi_inference_condition{{namespace="{namespace}", name="{NAME}", type="Ready", status="True"}}'
    wait_until(lambda: bool(prometheus(query)), f"an answer to {query}", PATIENCE)
