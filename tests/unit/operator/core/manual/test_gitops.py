"""Health of a resource in Argo CD and Flux for each reason of Ready. A Lua engine runs deploy/argocd-cm.yaml."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from lupa.lua51 import LuaRuntime

from gaudi_operator.api.v1alpha1.resource import GROUP, KIND
from gaudi_runtime.contract.report import Phase
from tests.support.builders import Object
from tests.support.conformance import kstatus
from tests.support.kube_api import condition_of
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.resources import resource
from tests.unit.operator.core.stories import BIGGER, failing_upgrade, served, status

ROOT = Path(__file__).parents[5]
KEY = f"resource.customizations.health.{GROUP}_{KIND}"
SCRIPT = yaml.safe_load((ROOT / "deploy" / "argocd-cm.yaml").read_text())["data"][KEY]
AGREES = {"Healthy": "Current", "Degraded": "Failed", "Progressing": "InProgress", "Suspended": "InProgress"}


def argo(resource: Object) -> tuple[str, str]:
    """Run Argo CD's health script in Lua 5.1 without system libraries. Return the health and the message."""
    lua = LuaRuntime(register_eval=False, register_builtins=False)
    run = lua.eval("function(code, obj) return setfenv(assert(loadstring(code)), {obj = obj, ipairs = ipairs})() end")
    found = run(SCRIPT, lua.table_from(resource, recursive=True))
    return found["status"], found["message"]


def not_observed() -> Cluster:
    return Cluster(resource())


def waiting_for_a_node() -> Cluster:
    cluster = Cluster(resource(), cards=0)
    cluster.operate()
    cluster.controllers()
    cluster.operate()
    return cluster


def warming_up() -> Cluster:
    cluster = Cluster(resource(replicas=1))
    cluster.operate()
    cluster.controllers()
    (pod,) = cluster.kind("Pod")
    cluster.report(pod["metadata"]["name"], Phase.COMPILING)
    cluster.operate()
    return cluster


def rolling_out(**rollout: Any) -> Cluster:
    cluster = served()
    cluster.change(model=BIGGER, rollout=rollout)
    cluster.operate()
    return cluster


def changed() -> Cluster:
    cluster = served()
    cluster.change(model=BIGGER)
    return cluster


def scaled_to_zero() -> Cluster:
    cluster = served()
    cluster.change(replicas=0)
    cluster.settle()
    return cluster


def refused() -> Cluster:
    cluster = Cluster(resource(engine={"settings": {"NO_SUCH_KNOB": "1"}}))
    cluster.operate()
    return cluster


def rolled_back() -> Cluster:
    cluster, _, _ = failing_upgrade()
    cluster.settle()
    return cluster


@pytest.mark.parametrize(
    ("story", "reason", "health"),
    [
        (not_observed, None, "Progressing"),
        (waiting_for_a_node, "StartingPods", "Progressing"),
        (warming_up, "WarmingUp", "Progressing"),
        (served, "Serving", "Healthy"),
        (changed, "Serving", "Progressing"),
        (rolling_out, "RollingOut", "Progressing"),
        (lambda: rolling_out(paused=True), "RolloutPaused", "Suspended"),
        (scaled_to_zero, "ScaledToZero", "Healthy"),
        (refused, "SettingsWrong", "Degraded"),
        (rolled_back, "RolledBack", "Degraded"),
    ],
    ids=lambda each: getattr(each, "__name__", each),
)
def test_argo_and_flux_report_the_same_health_for_each_reason(
    story: Callable[[], Cluster], reason: str | None, health: str
) -> None:
    found = story().resource
    assert condition_of(found, "Ready").get("reason") == reason
    assert argo(found)[0] == health
    assert kstatus(found) == AGREES[health]


def test_argo_shows_the_message_of_the_problem() -> None:
    cluster = rolled_back()
    (said,) = [each for each in status(cluster)["conditions"] if each["type"] == "Stalled"]
    assert argo(cluster.resource)[1] == f"{said['reason']}: {said['message']}"
