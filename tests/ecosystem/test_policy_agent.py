"""Network policies that the third-party agent kube-router enforces: the allowed and the denied connections."""

from collections.abc import Callable, Iterator

import pytest

from demo import install
from demo.install import Installation
from localcluster import remove_cluster
from localcluster.errors import LocalClusterError
from localcluster.programs.debian import require
from localcluster.sandbox.processes import wait_until
from tests.e2e.conftest import cluster_name
from tests.e2e.network_policies import (
    OPERATOR_PORT,
    PROMISED,
    Places,
    addresses,
    open_class,
    operator_addresses,
    places,
    reaches,
)
from tests.ecosystem.parts import KUBE_ROUTER, NAMESPACE, install_prometheus, query_prometheus

__all__ = ["addresses", "open_class", "places"]

PATIENCE = 60
IPSET = {"ipset": "/usr/sbin/ipset"}

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def installed() -> Iterator[Installation]:
    """A separate cluster, because the agent's rules remain after the test. All pods are created under these rules."""
    require(IPSET)
    name = cluster_name("policies")
    found = install.ensure_installation(name)
    KUBE_ROUTER.install(found)
    install_prometheus(found)
    yield found
    remove_cluster(name)


@pytest.fixture(scope="module")
def monitoring_namespace() -> str:
    """The namespace of the real Prometheus."""
    return NAMESPACE


@pytest.fixture
def scraped(installed: Installation) -> Callable[[str], set[str]]:
    """Return the names of the pods that Prometheus scrapes successfully for a job."""

    def _scraped(job: str) -> set[str]:
        found = query_prometheus(installed, f'up{{job="{job}"}} == 1')
        return {each["metric"]["pod"] for each in found}

    return _scraped


@pytest.mark.parametrize(("who", "target", "port", "arrives"), PROMISED)
def test_agent_allows_the_documented_connections(
    installed: Installation, places: Places, addresses: dict[str, str], who: str, target: str, port: int, arrives: bool
) -> None:
    def as_documented() -> bool:
        return reaches(installed, places[who], addresses[target], port) is arrives

    wait_until(as_documented, f"{who} to {'reach' if arrives else 'be kept from'} {target}:{port}", PATIENCE)


@pytest.mark.usefixtures("addresses")
def test_prometheus_scrapes_operators_and_models_through_the_agent(scraped: Callable[[str], set[str]]) -> None:
    wait_until(lambda: len(scraped("operator")) == 2, "Prometheus to scrape both operators", PATIENCE)
    wait_until(lambda: len(scraped("runtimes")) == 3, "Prometheus to scrape all models", PATIENCE)


@pytest.mark.usefixtures("addresses")
def test_prometheus_loses_access_when_its_namespace_is_unset(installed: Installation, places: Places) -> None:
    def reached() -> list[bool]:
        # Read the addresses in each attempt, because an upgrade replaces the operator's pods.
        try:
            found = operator_addresses(installed)
            return [reaches(installed, places["prometheus"], address, OPERATOR_PORT) for address in found]
        except LocalClusterError:  # the pod of an address has ended
            return []

    wait_until(lambda: reached() == [True, True], "Prometheus to reach both operators", PATIENCE)
    install.install_chart(installed)  # returns when the new pods are ready, so their port answers the kubelet
    wait_until(lambda: reached() == [False, False], "Prometheus to be denied at both operators", PATIENCE)
