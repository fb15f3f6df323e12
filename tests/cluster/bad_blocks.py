"""Specs with a block of a Kubernetes type that the API server accepts and that must not reach a pod.

The schema declares only a few fields of these blocks. The API server validates the rest when the operator writes the
child that contains the block, and the policy for the operator's account refuses what affects more than the pod.
"""

import json
from typing import Any

from tests.support.builders import Object
from tests.support.metrics import running_requests

SIDE = {"name": "log", "image": "log:1"}
SECRET, CONFIG_MAP = {"name": "s", "key": "k"}, {"name": "c", "key": "k"}
AVERAGE = {"type": "AverageValue", "averageValue": 1}
UTILIZATION = {"type": "Utilization", "averageUtilization": 50}
LARGE = {"example.com/large": "x" * 2**16}


def pod(**fields: Any) -> Object:
    """Return a spec with `fields` in spec.pod."""
    return {"pod": fields}


def volume(**fields: Any) -> dict[str, Any]:
    """Return a spec with one volume."""
    return pod(volumes=[{"name": "a", **fields}])


def anti_affinity(**term: Any) -> dict[str, Any]:
    """Return a spec with one required podAntiAffinity term."""
    return pod(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})


def node_affinity(**term: Any) -> dict[str, Any]:
    """Return a spec with one required nodeAffinity term."""
    terms = {"nodeSelectorTerms": [term]}
    return pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})


def topology_spread(**fields: Any) -> dict[str, Any]:
    """Return a spec with one topology spread constraint."""
    zone = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    return pod(topologySpreadConstraints=[{**zone, **fields}])


def env_from(**source: Any) -> dict[str, Any]:
    """Return a spec with an environment variable whose value comes from `source`."""
    return {"engine": {"env": [{"name": "A", "valueFrom": source}]}}


def clients(*entries: Object) -> Object:
    """Return a spec that allows only these clients to connect to the model port."""
    return {"networkAccess": {"from": "Clients", "clients": list(entries)}}


def scaled(**fields: Any) -> dict[str, Any]:
    """Return a spec with `fields` in spec.autoscaling."""
    return {"autoscaling": {"maxReplicas": 2, **fields}}


def by_metric(kind: str, **source: Any) -> dict[str, Any]:
    """Return a spec with one autoscaling metric of type `kind`."""
    return scaled(metrics=[{"type": kind, **source}])


def by_cpu(**target: Any) -> dict[str, Any]:
    """Return a spec that scales on the CPU usage of the pods with the given target."""
    return by_metric("Resource", resource={"name": "cpu", "target": target})


def by_external(**target: Any) -> dict[str, Any]:
    """Return a spec that scales on the external metric `queue` with the given target."""
    return by_metric("External", external={"metric": {"name": "queue"}, "target": target})


def by_pods(name: str, target: dict[str, Any]) -> dict[str, Any]:
    """Return a spec that scales on the metric `name` of the pods."""
    return by_metric("Pods", pods={"metric": {"name": name}, "target": target})


def by_object(**described: Any) -> dict[str, Any]:
    """Return a spec that scales on a metric of another object."""
    target = {"type": "Value", "value": 1}
    return by_metric("Object", object={"describedObject": described, "metric": {"name": "a"}, "target": target})


def scale_down(**rules: Any) -> dict[str, Any]:
    """Return a spec with `rules` in autoscaling.behavior.scaleDown."""
    return scaled(behavior={"scaleDown": rules})


def over_limit(name: str, request: str | int, limit: str) -> dict[str, Object]:
    """Return specs with a side container that requests more of a resource than its limit."""
    container = {**SIDE, "resources": {"requests": {name: request}, "limits": {name: limit}}}
    return {
        f"{name}_request_over_limit_of_a_sidecar": pod(sidecars=[container]),
        f"{name}_request_over_limit_of_an_init_container": pod(initContainers=[container]),
    }


MOUNT = {"name": "a", "mountPath": "/a"}
FAULTS: dict[str, Object] = {
    "affinity: unknown field": pod(affinity={"nodeAfinity": {}}),
    "affinity: wrong type": pod(affinity={"nodeAffinity": "gaudi3"}),
    "affinity: wrong type below": pod(affinity={"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": 1}}),
    "affinity: too large": pod(affinity=LARGE),
    "affinity: too deep": pod(affinity=json.loads('{"a":' * 500 + "{}" + "}" * 500)),
    "topologySpreadConstraints: unknown field": topology_spread(skew=1),
    "topologySpreadConstraints: wrong type": topology_spread(labelSelector="app=a"),
    "topologySpreadConstraints: too large": topology_spread(labelSelector={"matchLabels": LARGE}),
    "volumes: unknown field": volume(emptyDirectory={}),
    "volumes: wrong type": volume(configMap="a"),
    "volumes: wrong type of an item": volume(secret={"secretName": "s", "items": "all"}),
    "volumes: not allowed": volume(nfs={"server": "a", "path": "/"}),
    "volumes: host folder": volume(hostPath={"path": "/"}),
    "volumes: too large": volume(csi={"driver": "a", "volumeAttributes": LARGE}),
    "volumeMounts: unknown field": pod(volumes=[{"name": "a", "emptyDir": {}}], volumeMounts=[{**MOUNT, "path": "/b"}]),
    "volumeMounts: wrong type": pod(volumes=[{"name": "a", "emptyDir": {}}], volumeMounts=[{**MOUNT, "subPath": 1}]),
    "volumeMounts: not allowed": pod(
        volumes=[{"name": "a", "emptyDir": {}}], volumeMounts=[{**MOUNT, "mountPropagation": "HostToContainer"}]
    ),
    "volumeMounts: too large": pod(
        volumes=[{"name": "a", "emptyDir": {}}], volumeMounts=[{**MOUNT, "subPath": "x" * 2**16}]
    ),
    "initContainers: unknown field": pod(initContainers=[{**SIDE, "comand": ["a"]}]),
    "initContainers: wrong type": pod(initContainers=[{**SIDE, "command": "a"}]),
    "initContainers: wrong type of env": pod(initContainers=[{**SIDE, "env": {"A": "b"}}]),
    "initContainers: not allowed": pod(initContainers=[{**SIDE, "envFrom": [{"secretRef": {"name": "s"}}]}]),
    "initContainers: too large": pod(initContainers=[{**SIDE, "args": ["x" * 2**16]}]),
    "sidecars: unknown field": pod(sidecars=[{**SIDE, "img": "a"}]),
    "sidecars: wrong type": pod(sidecars=[{**SIDE, "args": [{}]}]),
    "sidecars: not allowed": pod(sidecars=[{**SIDE, "ports": [{"containerPort": 80, "hostPort": 80}]}]),
    "sidecars: too large": pod(sidecars=[{**SIDE, "args": ["x" * 2**16]}]),
    "env: unknown field": env_from(secretKeyRef={**SECRET, "version": 1}),
    "env: wrong type": env_from(secretKeyRef="s/k"),
    "env: too large": env_from(fieldRef={"fieldPath": "x" * 2**16}),
    "metrics: unknown field": scaled(metrics=[{"type": "Resource", "resources": {}}]),
    "metrics: wrong type": scaled(metrics=[{"type": "Resource", "resource": "cpu"}]),
    "metrics: wrong type of a name": by_metric("Pods", pods={"metric": {"name": ["a"]}, "target": AVERAGE}),
    "metrics: too large": by_metric("Pods", pods={"metric": {"name": "x" * 2**16}, "target": AVERAGE}),
    "behavior: unknown field": scaled(behavior={"down": {}}),
    "behavior: wrong type": scaled(behavior={"scaleDown": "slow"}),
    "behavior: too large": scaled(behavior={"scaleDown": {"selectPolicy": "x" * 2**16}}),
    "clients: unknown field": clients({"pods": {}}),
    "clients: wrong type": clients({"podSelector": "app=a"}),
    "clients: wrong type of a namespace": clients({"namespaceSelector": "a"}),
    "clients: not allowed": clients({"ipBlock": {"cidr": "0.0.0.0/0"}}),
    "clients: too large": clients({"podSelector": {"matchLabels": LARGE}}),
}
"""One fault of each kind for each block."""

MORE_FAULTS: dict[str, Object] = {
    **over_limit("cpu", 4, "3500m"),
    **over_limit("memory", "2Gi", "2G"),
    **over_limit("ephemeral-storage", "1025Mi", "1Gi"),
    "host_path_volume": volume(hostPath={"path": "/"}),
    "volume_with_two_sources": volume(emptyDir={}, secret={"secretName": "s"}),
    "projection_with_two_sources": volume(
        projected={"sources": [{"configMap": {"name": "a"}, "secret": {"name": "b"}}]}
    ),
    "projected_token": volume(projected={"sources": [{"serviceAccountToken": {"path": "token"}}]}),
    "projected_token_for_another_audience": volume(
        projected={"sources": [{"serviceAccountToken": {"path": "token", "audience": "vault"}}]}
    ),
    "file_path_outside_its_volume": volume(configMap={"name": "a", "items": [{"key": "a", "path": "a/../../b"}]}),
    "mode_with_four_digits": volume(secret={"secretName": "a", "defaultMode": 2048}),
    "sidecar_without_image": pod(sidecars=[{"name": "log"}]),
    "sidecar_with_security_context": pod(sidecars=[{**SIDE, "securityContext": {"privileged": True}}]),
    "init_container_with_capability": pod(
        initContainers=[{**SIDE, "securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}]
    ),
    "pod_term_without_topology_key": anti_affinity(labelSelector={}),
    "in_operator_without_values": anti_affinity(
        topologyKey="zone", labelSelector={"matchExpressions": [{"key": "a", "operator": "In"}]}
    ),
    "exists_operator_with_values": node_affinity(
        matchExpressions=[{"key": "a", "operator": "Exists", "values": ["b"]}]
    ),
    "node_field_other_than_name": node_affinity(matchFields=[{"key": "zone", "operator": "In", "values": ["a"]}]),
    "preferred_weight_too_large": pod(
        affinity={
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 101, "preference": {}}],
            }
        }
    ),
    "max_skew_zero": topology_spread(maxSkew=0),
    "min_domains_with_schedule_anyway": topology_spread(minDomains=2),
    "spread_with_operator_label_key": topology_spread(matchLabelKeys=["inference.gaudi.dev/name"]),
    "variable_with_two_sources": env_from(secretKeyRef=SECRET, configMapKeyRef=CONFIG_MAP),
    "variable_without_source": env_from(),
    "variable_from_unsupported_field": env_from(fieldRef={"fieldPath": "spec.x"}),
    "variable_from_unsupported_resource": env_from(resourceFieldRef={"resource": "limits.gpu"}),
    "metric_without_type": scaled(metrics=[{}]),
    "metric_with_unknown_type": by_metric("Node"),
    "metric_without_source": by_metric("Pods"),
    "metric_with_the_source_of_another_type": by_metric("Pods", resource={"name": "cpu", "target": UTILIZATION}),
    "metric_with_two_sources": scaled(
        metrics=[{**running_requests(1), "resource": {"name": "cpu", "target": UTILIZATION}}]
    ),
    "target_without_value": by_cpu(type="Utilization"),
    "target_with_two_values": by_external(**AVERAGE, value=1),
    "target_of_zero": by_external(type="Value", value=0),
    "target_of_zero_as_text": by_external(type="Value", value="0.00"),
    "target_below_zero": by_external(type="Value", value="-1"),
    "target_of_zero_percent": by_cpu(type="Utilization", averageUtilization=0),
    "value_target_of_a_resource": by_cpu(type="Value", value=1),
    "utilization_target_of_an_external_metric": by_external(**UTILIZATION),
    "utilization_target_of_pods": by_pods("a", UTILIZATION),
    "metric_name_with_a_slash": by_pods("a/b", AVERAGE),
    "metric_name_with_percent": by_pods("a%b", AVERAGE),
    "metric_name_is_two_dots": by_pods("..", AVERAGE),
    "container_without_name": by_metric("ContainerResource", containerResource={"name": "cpu", "target": UTILIZATION}),
    "object_without_name": by_object(kind="Ingress"),
    "object_with_invalid_version": by_object(apiVersion="a/b/v1", kind="A", name="a"),
    "kind_with_a_slash": by_object(kind="a/b", name="a"),
    "window_too_long": scale_down(stabilizationWindowSeconds=3601),
    "unknown_select_policy": scale_down(selectPolicy="Some"),
    "policy_with_value_zero": scale_down(policies=[{"type": "Pods", "value": 0, "periodSeconds": 1}]),
    "policy_period_too_long": scale_down(policies=[{"type": "Percent", "value": 1, "periodSeconds": 1801}]),
    "client_without_selector": clients({}),
    "ip_block_with_selector": clients({"podSelector": {}, "ipBlock": {"cidr": "::/0"}}),
    "ip_block_that_is_no_range": clients({"ipBlock": {"cidr": "10.0.0.1"}}),
    "client_selector_without_values": clients(
        {"podSelector": {"matchExpressions": [{"key": "app", "operator": "In"}]}}
    ),
}
"""Further faults, which differ in the rule of the API server that refuses them."""

ZONE = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
VALID: dict[str, Object] = {
    "volume of no kind, which is an emptyDir": volume(),
    "memory of huge pages": volume(emptyDir={"medium": "HugePages"}),
    "comparison with a text, which no node satisfies": node_affinity(
        matchExpressions=[{"key": "a", "operator": "Gt", "values": ["many"]}]
    ),
    "label key in a selector": topology_spread(labelSelector={"matchLabels": {"app": "a"}}, matchLabelKeys=["app"]),
    "value of another type": by_cpu(type="Utilization", averageValue=1),
    "resource that no pod has, which the autoscaler reports": by_metric(
        "Resource", resource={"name": "gpu", "target": UTILIZATION}
    ),
    "numbers as quantities": {
        "autoscaling": {"maxReplicas": 2, "metrics": [running_requests(2)], "behavior": {"scaleDown": {}}},
        "pod": {"sidecars": [{**SIDE, "resources": {"limits": {"cpu": 2, "memory": ".5Gi"}}}]},
    },
    "empty values": {
        "engine": {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name", "apiVersion": ""}}}]},
        "networkAccess": {"from": "Clients", "clients": [{"podSelector": {}, "namespaceSelector": None}]},
        "pod": {
            "affinity": {"nodeAffinity": None, "podAffinity": {}},
            "topologySpreadConstraints": [{**ZONE, "matchLabelKeys": [], "labelSelector": {}}],
            "volumes": [{"name": "a", "emptyDir": {"sizeLimit": None}}],
            "volumeMounts": [{**MOUNT, "readOnly": False, "subPath": ""}],
            "sidecars": [{**SIDE, "args": [], "env": None, "resources": {}, "terminationMessagePath": ""}],
        },
    },
}
"""Specs that the API server accepts, in a form that it changes or that an earlier schema refused."""
