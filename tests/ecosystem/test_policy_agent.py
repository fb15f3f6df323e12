"""Network policies under kube-router, an agent of others that enforces them on a node: who gets in and who does not."""

from collections.abc import Callable, Iterator

import pytest

from demo import install
from demo.install import Installed
from localcluster import remove_cluster
from localcluster.debian import require
from localcluster.errors import LocalClusterError
from localcluster.processes import wait_until
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
def installed() -> Iterator[Installed]:
    """A cluster of its own: the rules of the agent would outlive it. Everything else starts under its rules."""
    require(IPSET)
    name = cluster_name("policies")
    found = install.everything(name)
    KUBE_ROUTER.install(found)
    install_prometheus(found)
    yield found
    remove_cluster(name)


@pytest.fixture(scope="module")
def monitoring_namespace() -> str:
    """The namespace of the real Prometheus."""
    return NAMESPACE


@pytest.fixture
def up(installed: Installed) -> Callable[[str], set[str]]:
    """Which targets of a job Prometheus scrapes: pods by name."""

    def _up(job: str) -> set[str]:
        found = query_prometheus(installed, f'up{{job="{job}"}} == 1')
        return {each["metric"]["pod"] for each in found}

    return _up


@pytest.mark.parametrize(("who", "target", "port", "arrives"), PROMISED)
def test_agent_lets_in_whom_the_policy_promises(
    installed: Installed, places: Places, addresses: dict[str, str], who: str, target: str, port: int, arrives: bool
) -> None:
    def as_promised() -> bool:
        return reaches(installed, places[who], addresses[target], port) is arrives

    wait_until(as_promised, f"{who} to {'reach' if arrives else 'be kept from'} {target}:{port}", PATIENCE)


@pytest.mark.usefixtures("addresses")
def test_prometheus_scrapes_operators_and_models_through_the_agent(up: Callable[[str], set[str]]) -> None:
    wait_until(lambda: len(up("operator")) == 2, "Prometheus to scrape both operators", PATIENCE)
    wait_until(lambda: len(up("runtimes")) == 3, "Prometheus to scrape all models", PATIENCE)


@pytest.mark.usefixtures("addresses")
def test_prometheus_that_is_no_longer_named_is_kept_out(installed: Installed, places: Places) -> None:
    def reached() -> list[bool]:
        # Upgrades replace the operator's pods, so each look needs their present addresses.
        try:
            found = operator_addresses(installed)
            return [reaches(installed, places["prometheus"], address, OPERATOR_PORT) for address in found]
        except LocalClusterError:  # the pod of an address ended meanwhile
            return []

    wait_until(lambda: reached() == [True, True], "Prometheus to reach both operators", PATIENCE)
    install.install_chart(installed)  # returns when the new pods are ready, so their port answers the kubelet
    wait_until(lambda: reached() == [False, False], "Prometheus to be kept out of both operators", PATIENCE)
