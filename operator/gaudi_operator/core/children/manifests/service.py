"""The Service in front of all ready pods, of whatever revision, and the ServiceAccount of the pods: an identity without
rights and without a mounted token.
"""

from gaudi_operator.core.children.manifests.metadata import Object, child, stamped, traffic_labels
from gaudi_operator.core.resource import Identity, Inference
from gaudi_runtime.contract.ports import MODEL_PORT_NAME


def service(inference: Inference) -> Object:
    """The Service with the resource's name; only the model port stands on it."""
    owner, desired = inference.identity, inference.spec.service
    port = {"name": MODEL_PORT_NAME, "port": desired.port, "targetPort": MODEL_PORT_NAME, "protocol": "TCP"}
    spec = {"type": desired.type.value, "selector": traffic_labels(inference), "ports": [port]}
    manifest = child("v1", "Service", owner.name, owner, {"spec": spec})
    if desired.annotations:
        metadata = {**manifest["metadata"], "annotations": dict(desired.annotations)}
        return stamped({**manifest, "metadata": metadata})
    return manifest


def endpoint(inference: Inference) -> str:
    """Address of the OpenAI API inside the cluster."""
    owner = inference.identity
    return f"http://{owner.name}.{owner.namespace}.svc:{inference.spec.service.port}/v1"


def service_account(owner: Identity) -> Object:
    """The account that the pods use unless the resource names another."""
    return child("v1", "ServiceAccount", owner.name, owner, {"automountServiceAccountToken": False})
