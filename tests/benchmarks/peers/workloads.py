"""The workload of each operator: a model server of one replica on a CPU, and a change that creates a new pod."""

from collections.abc import Callable
from dataclasses import dataclass

from gaudi_operator.core.names import CONTAINER
from tests.support.builders import gaudi_inference
from tests.support.kube_api import Object, api_version, condition_of


@dataclass(frozen=True)
class Workload:
    """One kind of resource: `make` creates it by name, the merge patch `change` creates a new pod, `ready` tests it."""

    kind: str
    make: Callable[[str], Object]
    change: Object
    ready: Callable[[Object], bool]


def _container(value: str) -> Object:
    # The container has the name for which the scripted kubelet starts a runtime.
    resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}
    environment = [{"name": "VALUE", "value": value}]
    return {"name": CONTAINER, "image": "registry.test/server:1", "env": environment, "resources": resources}


def _template(value: str) -> Object:
    return {"spec": {"containers": [_container(value)]}}


def _resource(kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": api_version(kind), "kind": kind, "metadata": {"name": name}, "spec": spec}


def _leader_worker_set(name: str) -> Object:
    spec = {"replicas": 1, "leaderWorkerTemplate": {"size": 1, "workerTemplate": _template("1")}}
    return _resource("LeaderWorkerSet", name, spec)


def _ray_cluster(name: str) -> Object:
    head = {"rayStartParams": {}, "template": _template("1")}
    return _resource("RayCluster", name, {"rayVersion": "2.50.0", "headGroupSpec": head})


def _has(type_: str) -> Callable[[Object], bool]:
    return lambda resource: condition_of(resource, type_).get("status") == "True"


OURS = Workload("GaudiInference", gaudi_inference, {"spec": {"engine": {"maxNumSeqs": 5}}}, _has("Ready"))
LEADER_WORKER_SETS = Workload(
    "LeaderWorkerSet",
    _leader_worker_set,
    {"spec": {"leaderWorkerTemplate": {"workerTemplate": _template("2")}}},
    _has("Available"),
)
# KubeRay does not replace its head pod when the template changes, so the change adds a group of workers.
_WORKERS = {"groupName": "workers", "replicas": 1, "minReplicas": 0, "maxReplicas": 1, "rayStartParams": {}}
KUBERAY = Workload(
    "RayCluster",
    _ray_cluster,
    {"spec": {"workerGroupSpecs": [{**_WORKERS, "template": _template("2")}]}},
    lambda resource: bool((resource.get("status") or {}).get("state") == "ready"),
)
