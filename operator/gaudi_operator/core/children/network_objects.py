"""Network access to pods: the Service of ready pods, the ServiceAccount of the pods, and the NetworkPolicy.

Pods of the namespace and the installation's gateways can reach the model port, unless the resource lists other clients.
Only the operator and the monitoring can reach the status port. Pods of a group can reach each other. The ServiceAccount
has no permissions, and its token is not mounted.
"""

from gaudi_operator.api.v1alpha1.network import AccessFrom, ServiceType
from gaudi_operator.core.inference import Identity, Inference, cache_on_inference
from gaudi_operator.core.installation import InstallationDefaults
from gaudi_operator.core.names import NAMESPACE_LABEL, OPERATOR_POD_LABELS
from gaudi_operator.core.rendering.metadata import (
    Object,
    add_applied_hash,
    child_manifest,
    selector_labels,
    traffic_labels,
)
from gaudi_runtime.contract.ports import MODEL_PORT_NAME, STATUS_PORT_NAME


@cache_on_inference
def service(inference: Inference) -> Object:
    """Build the Service of the resource. It publishes only the model port."""
    owner, service_spec = inference.identity, inference.spec.service
    port = {"name": MODEL_PORT_NAME, "port": service_spec.port, "targetPort": MODEL_PORT_NAME, "protocol": "TCP"}
    if inference.spec.server.tls_secret_name:
        port["appProtocol"] = "https"  # gateways and meshes read this field, not the name of the port
    spec = {"type": service_spec.type.value, "selector": traffic_labels(inference), "ports": [port]}
    manifest = child_manifest("v1", "Service", owner.name, owner, {"spec": spec})
    if service_spec.annotations:
        metadata = {**manifest["metadata"], "annotations": dict(service_spec.annotations)}
        return add_applied_hash({**manifest, "metadata": metadata})
    return manifest


def endpoint_url(inference: Inference) -> str:
    """Return the URL of the OpenAI API inside the cluster. It contains the DNS name of the Service."""
    owner = inference.identity
    scheme = "https" if inference.spec.server.tls_secret_name else "http"
    return f"{scheme}://{owner.name}.{owner.namespace}.svc:{inference.spec.service.port}/v1"


def service_account(owner: Identity) -> Object:
    """Build the ServiceAccount that pods use unless the resource names another account."""
    return child_manifest("v1", "ServiceAccount", owner.name, owner, {"automountServiceAccountToken": False})


def network_policy(inference: Inference, defaults: InstallationDefaults) -> Object:
    """Build the NetworkPolicy, which restricts only ingress to pods."""
    owner = inference.identity
    spec = {
        "podSelector": {"matchLabels": selector_labels(owner)},
        # Restrict ingress only. An egress rule would have to list all model hubs, object stores and registries.
        "policyTypes": ["Ingress"],
        "ingress": [*_client_rules(inference, defaults), _operator_rule(defaults), *_group_rules(inference)],
    }
    return child_manifest("networking.k8s.io/v1", "NetworkPolicy", owner.name, owner, {"spec": spec})


def _operator_rule(defaults: InstallationDefaults) -> Object:
    peer = {
        "namespaceSelector": {"matchLabels": {NAMESPACE_LABEL: defaults.operator_namespace}},
        "podSelector": {"matchLabels": dict(OPERATOR_POD_LABELS)},
    }
    return {"from": [peer, *defaults.monitoring_from], "ports": [_port(STATUS_PORT_NAME)]}


def _group_rules(inference: Inference) -> list[Object]:
    """Return rules that open all ports between the pods of a group, because the libraries of the ranks choose ports."""
    if inference.spec.parallelism.nodes == 1:
        return []
    return [{"from": [{"podSelector": {"matchLabels": selector_labels(inference.identity)}}]}]


def _client_rules(inference: Inference, defaults: InstallationDefaults) -> list[Object]:
    """Return the rules for the model port of a resource with a policy, or no rules if the list of clients is empty.

    In this case a rule would have no peers, which means that all clients are allowed.
    """
    ports = [_port(MODEL_PORT_NAME)]
    access = inference.spec.network_access
    if access.access_from is AccessFrom.EVERYONE:
        # External clients have addresses that no pod or namespace selector matches, so do not restrict the source.
        is_external = inference.spec.service.type is not ServiceType.CLUSTER_IP
        return [{"ports": ports} if is_external else {"from": [{"namespaceSelector": {}}], "ports": ports}]
    if access.access_from is not AccessFrom.CLIENTS:
        return [{"from": [{"podSelector": {}}, *defaults.gateways_from], "ports": ports}]
    return [{"from": list(access.clients), "ports": ports}] if access.clients else []


def _port(name: str) -> Object:
    return {"port": name, "protocol": "TCP"}
