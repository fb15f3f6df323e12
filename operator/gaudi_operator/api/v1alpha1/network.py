"""spec.service and spec.networkAccess: how clients reach the replicas."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from gaudi_operator.api.base import Annotations, ApiModel, Labels, Rule, validated_by


class ServiceType(StrEnum):
    """How the Service is reachable."""

    CLUSTER_IP = "ClusterIP"
    NODE_PORT = "NodePort"
    LOAD_BALANCER = "LoadBalancer"


class Service(ApiModel):
    """The Service in front of the replicas; it has the resource's name."""

    type: ServiceType = Field(ServiceType.CLUSTER_IP, description="How the Service is reachable.")
    port: Annotated[int, Field(ge=1, le=65_535)] = Field(80, description="Port of the Service.")
    annotations: Annotations = Field({}, description="Annotations of the Service.")


class ClientRule(ApiModel):
    """Who may reach the model port."""

    namespace_labels: Labels = Field({}, description="Labels of the client's namespace; this namespace when empty.")
    pod_labels: Labels = Field({}, description="Labels of the client's pod; every pod when empty.")


class NetworkAccess(ApiModel):
    """Ingress to the pods; the status port is open to the operator only."""

    model_config = validated_by(
        Rule(
            rule="!self.allowAllClients || !has(self.clients) || self.clients.size() == 0",
            message="spec.networkAccess.clients has no effect while allowAllClients is true: set it to false",
        )
    )

    enabled: bool = Field(True, description="Whether a NetworkPolicy is made.")
    allow_all_clients: bool = Field(True, description="Whether any pod of the cluster may reach the model port.")
    clients: Annotated[tuple[ClientRule, ...], Field(max_length=16)] = Field(
        (), description="Who may reach the model port when allowAllClients is false."
    )
