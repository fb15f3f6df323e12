"""A model that serves ordinary clients while another tenant attacks the model and the operator.

The attacks come from a security review: ConfigMaps of maximum size with our label, pods that claim to be replicas of a
group, the most expensive request bodies within the limits (invalid and valid), requests for more sequences than there
are places, bodies that never arrive, and specs whose planning takes long.
"""

import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client, config

from demo import install
from demo.client_pod import ClientPod
from demo.install import ROOT, Installation
from demo.load import Traffic
from demo.recorder import Recorder
from demo.reports import ReportRecorder
from demo.resource import Resource, is_ready
from gaudi_operator.core.names import GATE, GROUP_NAME_LABEL, NAME_LABEL, REVISION_LABEL
from gaudi_runtime.contract.ports import WARMUP_PATH
from gaudi_runtime.http.openai_api.paths import GENERATING
from localcluster import leader_worker_sets, remove_cluster
from localcluster.errors import LocalClusterError
from localcluster.sandbox.processes import wait_until
from tests.e2e.conftest import cluster_name
from tests.e2e.groups import leader_and_worker, report_of
from tests.e2e.pods import Pods, gate_of
from tests.e2e.reports import wait_answered
from tests.e2e.specs import QUICK, TWO_PROMPT_BUCKETS
from tests.e2e.test_hostile_neighbours import hostile_resources, operator_pods, verdicts
from tests.vllm import bodies as worst
from tests.vllm.worst_bodies import application, fields_by_path

MODEL, GROUP = "tiny-vllm-cpu", "several-nodes"
CONFIG_MAPS, CONFIG_MAP_BYTES = 400, 1_000_000
FIELDS = {*worst.LISTS, *worst.GRAMMARS, "vllm_xargs", "logit_bias", "metadata", "n"}
FORGED = 3
UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


class MemoryRecorder(Recorder):
    """A recorder of each container's peak working set in the given namespaces, in bytes, as reported by the kubelet."""

    def __init__(self, installed: Installation, namespaces: set[str]) -> None:
        super().__init__()
        self._api: Any = client.CoreV1Api(config.new_client_from_config(str(installed.kubeconfig)))
        self._namespaces = namespaces
        self.most: Counter[tuple[str, str]] = Counter()
        """The peaks by pod and container."""
        self.limits: dict[tuple[str, str], int] = {}

    def record(self) -> None:
        """Read the working sets of the containers every two seconds."""
        node = self._api.list_node().items[0].metadata.name
        while not self.stopped.wait(2):
            for namespace in self._namespaces:
                for pod in self._api.list_namespaced_pod(namespace).items:
                    self._read_limits(pod)
            answer = self._api.connect_get_node_proxy_with_path(node, "stats/summary", _preload_content=False)
            for pod in json.loads(answer.data)["pods"]:
                if pod["podRef"]["namespace"] in self._namespaces:
                    for each in pod.get("containers", []):
                        name = (pod["podRef"]["name"], each["name"])
                        self.most[name] = max(self.most[name], each.get("memory", {}).get("workingSetBytes", 0))

    def _read_limits(self, pod: Any) -> None:
        for each in pod.spec.containers:
            if limit := (each.resources.limits or {}).get("memory"):
                self.limits[pod.metadata.name, each.name] = int(limit[:-2]) * UNITS[limit[-2:]]


@pytest.fixture(scope="module")
def installed() -> Iterator[Installation]:
    """A separate cluster, because the large ConfigMaps would remain in a shared cluster after the test."""
    name = cluster_name("attacks")
    yield install.ensure_installation(name)
    remove_cluster(name)


@pytest.fixture
def serving(installed: Installation, namespace: str) -> Pods:
    """A Ready model with vLLM on the CPU."""
    manifest = yaml.safe_load((ROOT / "examples" / "tiny-vllm-cpu.yaml").read_text())
    manifest["spec"]["bucketing"] = TWO_PROMPT_BUCKETS
    manifest["spec"]["pod"]["resources"]["requests"]["cpu"] = "250m"
    installed.kubectl("apply", "--namespace", namespace, "-f", "-", stdin=yaml.safe_dump(manifest))
    resource = Resource(str(installed.kubeconfig), namespace, MODEL)
    next(state for state in resource.states(600) if is_ready(state))
    return Pods(installed, namespace, MODEL)


@pytest.fixture
def group(installed: Installation, namespace: str) -> Pods:
    """A Ready replica over two nodes."""
    leader_worker_sets.install(installed.cluster)
    manifest = yaml.safe_load((ROOT / "examples" / "several-nodes-simulation.yaml").read_text())
    manifest["spec"]["model"]["source"] = {"ociImage": {"reference": install.MODEL_IMAGE}}
    manifest["spec"]["server"] = {"image": install.RUNTIME_IMAGE}
    manifest["spec"]["pod"] = {"resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "2Gi"}}}
    installed.kubectl("apply", "--namespace", namespace, "-f", "-", stdin=yaml.safe_dump(manifest))
    resource = Resource(str(installed.kubeconfig), namespace, GROUP)
    next(state for state in resource.states(300) if is_ready(state))
    return Pods(installed, namespace, GROUP)


@pytest.fixture
def fields() -> dict[str, list[str]]:
    """The fields of vLLM's request models, by path."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # imports of vLLM warn
        return {path: sorted(known & FIELDS) for path, known in sorted(fields_by_path(application()).items())}


@pytest.mark.timeout(2400)
def test_clients_are_not_affected_by_attacks_of_other_tenants(
    installed: Installation,
    namespace: str,
    fields: dict[str, list[str]],
    serving: Pods,
    group: Pods,
    apply: Callable[..., Resource],
    wait_ready: Callable[[str], None],
) -> None:
    operators, models = operator_pods(installed), {*serving.names(), *group.names()}
    restarts = serving.restarts() | group.restarts()
    traffic, kubeconfig = Traffic(installed.kubectl, namespace, install.RUNTIME_IMAGE), str(installed.kubeconfig)
    before = missed_probes(installed, {*operators, *models})
    with (
        ReportRecorder(kubeconfig, namespace, MODEL) as reports,
        MemoryRecorder(installed, {namespace, install.OPERATOR_NAMESPACE}) as memory,
    ):
        traffic.start(MODEL, "tiny", pause=0.2)
        wait_answered(reports, 1)
        forge_group_pods(group)
        create_config_maps(installed, namespace)
        for each in hostile_resources():
            each["metadata"].pop("namespace", None)
            installed.kubectl("apply", "--server-side", "-n", namespace, "-f", "-", stdin=json.dumps(each))
        statuses = send_bodies(installed, namespace, fields)
        while "NotJudgedYet" in verdicts(installed, namespace):
            memory.stopped.wait(2)
        survived, missed = operator_pods(installed), missed_probes(installed, {*operators, *models}) - before
        # Install the chart again to start a new operator. The new operator lists all objects first. When the new model
        # is ready, the operator has processed the list.
        install.install_chart(installed)
        apply("later", **QUICK)
        wait_ready("later")
        answers = traffic.stop()
    seconds = sorted(answer.seconds for answer in answers)
    print(f"{len(answers)} requests, p50 {seconds[len(seconds) // 2]:.2f} s, longest {seconds[-1]:.2f} s")  # noqa: T201
    print(f"{statuses.total()} bodies: {dict(sorted(statuses.items()))}")  # noqa: T201
    for name, most in memory.most.most_common():
        print(f"{most / 2**20:7.0f} of {memory.limits.get(name, 0) / 2**20:7.0f} MiB {' '.join(name)}")  # noqa: T201
    assert [answer.error for answer in answers if answer.error] == []
    assert reports.cold_requests() == 0
    assert survived == operators
    assert set(operator_pods(installed).values()) == {0}
    assert restarts.items() <= (serving.restarts() | group.restarts()).items()
    assert missed == Counter()
    assert missed_probes(installed, models) - before == Counter()
    assert gates_of_forged(group) == [None] * FORGED
    assert all(status < 500 for status in statuses)
    assert {*fields} == GENERATING
    assert {*operators, *operator_pods(installed), *models} <= {
        pod for pod, _ in memory.most.keys() & memory.limits.keys()
    }
    assert [name for name, limit in memory.limits.items() if memory.most[name] >= limit] == []


def create_config_maps(installed: Installation, namespace: str) -> None:
    """Create large ConfigMaps with our label.

    The owner reference of each ConfigMap names the model's GaudiInference.
    """
    api: Any = client.CoreV1Api(config.new_client_from_config(str(installed.kubeconfig)))
    uid = installed.kubectl("get", "gi", MODEL, "-n", namespace, "-o", "jsonpath={.metadata.uid}")
    owner = {"apiVersion": "inference.gaudi.dev/v1alpha1", "kind": "GaudiInference", "name": MODEL, "uid": uid}

    def create(number: int) -> None:
        metadata = {
            "name": f"large-{number}",
            "labels": {NAME_LABEL: MODEL},
            "ownerReferences": [{**owner, "controller": True}],
            # The finalizer keeps the ConfigMap after the owner is deleted.
            "finalizers": ["example.com/stays"],
        }
        api.create_namespaced_config_map(namespace, {"metadata": metadata, "data": {"text": "x" * CONFIG_MAP_BYTES}})

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(create, range(CONFIG_MAPS)))


def forge_group_pods(group: Pods) -> None:
    """Start a StatefulSet with forged pods.

    They have the labels and annotations of the group's leader, and its report.
    """
    leader, _ = leader_and_worker(group)
    labels = {**leader["metadata"]["labels"], "forged": "yes"}
    assert {GROUP_NAME_LABEL, REVISION_LABEL} <= labels.keys()
    serve = f'mkdir /tmp/v1 && echo "$REPORT" >/tmp{WARMUP_PATH} && exec python -m http.server 8001 --directory /tmp'
    container = {
        "name": "runtime",
        "image": install.RUNTIME_IMAGE,
        "command": ["sh", "-c", serve],
        "env": [{"name": "REPORT", "value": report_of(group, leader).model_dump_json(by_alias=True)}],
        "ports": leader["spec"]["containers"][0]["ports"],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    pod = {
        "containers": [container],
        "readinessGates": [{"conditionType": GATE}],
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
    }
    spec = {
        "replicas": FORGED,
        "serviceName": "forged",
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": {"forged": "yes"}},
        "template": {
            "metadata": {"labels": labels, "annotations": leader["metadata"].get("annotations", {})},
            "spec": pod,
        },
    }
    manifest = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": f"{GROUP}-forged"}, "spec": spec}
    group.installed.kubectl("apply", "-n", group.namespace, "-f", "-", stdin=json.dumps(manifest))
    wait_until(
        lambda: len([each for each in forged(group) if reports(group, each)]) == FORGED, "the forged reports", 120
    )


def forged(group: Pods) -> list[dict[str, Any]]:
    """Return the forged pods."""
    found: list[dict[str, Any]] = json.loads(group.kubectl("get", "pods", "-l", "forged=yes", "-o", "json"))["items"]
    return found


def reports(group: Pods, pod: dict[str, Any]) -> bool:
    """Return whether a forged pod serves the report of the leader."""
    try:
        return bool(report_of(group, pod))
    except LocalClusterError:
        return False


def gates_of_forged(group: Pods) -> list[str | None]:
    """Return the status of each forged pod's gate, or None if the gate was never written."""
    return [gate_of(each)["status"] for each in forged(group)]


def send_bodies(installed: Installation, namespace: str, fields: dict[str, list[str]]) -> Counter[int]:
    """Send the most expensive bodies for every path from a pod with several clients.

    Return the answers by status code.
    """
    attacker = ClientPod(
        installed.kubectl, namespace, "attacker", install.RUNTIME_IMAGE, Path(worst.__file__), cpu="250m"
    )
    attacker.start(MODEL, json.dumps(fields))
    ended = ("wait", "pod/attacker", "-n", namespace, "--for=jsonpath={.status.phase}=Succeeded", "--timeout=900s")
    installed.kubectl(*ended)
    return Counter({int(status): count for status, count in json.loads(attacker.finish()).items()})


def missed_probes(installed: Installation, pods: set[str]) -> Counter[str]:
    """Count the failed probes of these pods, by pod and message."""
    events = installed.kubectl("get", "events", "-A", "--field-selector", "reason=Unhealthy", "-o", "json")
    counts: Counter[str] = Counter()
    for each in json.loads(events)["items"]:
        if (name := each["involvedObject"]["name"]) in pods:
            counts[f"{name}: {each['message']}"] += each.get("count") or 1
    return counts
