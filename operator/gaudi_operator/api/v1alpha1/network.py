"""spec.service and spec.networkAccess: how clients reach the replicas."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from gaudi_operator.api.base import Annotations, ApiModel
from gaudi_operator.api.schema_keywords import Block, SchemaRule, schema_config_with_rules


class ServiceType(StrEnum):
    """How a Service is reachable."""

    CLUSTER_IP = "ClusterIP"
    NODE_PORT = "NodePort"
    LOAD_BALANCER = "LoadBalancer"


class Service(ApiModel):
    """Service of the replicas. The Service has the name of the resource."""

    type: ServiceType = Field(
        ServiceType.CLUSTER_IP,
        description="Type of the Service. NodePort and LoadBalancer publish the model outside the cluster. They"
        " require an API key or a list of clients.",
    )
    port: Annotated[int, Field(ge=1, le=65_535)] = Field(80, description="Port of the Service.")
    annotations: Annotations = Field(
        {}, description="Annotations of the Service, such as annotations for a load balancer."
    )


def _cel_is_protected(spec: str) -> str:
    """Return CEL that is true unless a model is published without protection. `spec` is an object or optional."""
    return (
        f"({spec}.?service.?type.orValue('ClusterIP') == 'ClusterIP' ||"
        f" {spec}.?server.?apiKeySecretRef.hasValue() ||"
        f" {spec}.?networkAccess.?from.orValue('') == 'Clients')"
    )


PUBLISHED = (
    "spec.service.type other than ClusterIP publishes the model to everyone who can reach the Service: set "
    "server.apiKeySecretRef, or set networkAccess.from to Clients and list the clients"
)
NOT_PUBLISHED = SchemaRule(
    rule=f"{_cel_is_protected('self')} || !{_cel_is_protected('oldSelf')}", message=PUBLISHED, before=True
)
REACHED_FROM_OUTSIDE = SchemaRule(
    rule="self.service.type == 'ClusterIP' || self.networkAccess.from != 'SameNamespace'",
    message="spec.service.type other than ClusterIP needs another networkAccess.from than SameNamespace, because only "
    "pods of this namespace would reach the model. Set it to Clients and list ipBlock ranges, or set it to Everyone",
)


SHORTEST_PREFIX = 8
"""Prefix length of the largest range that names clients; a larger range, such as 0.0.0.0/0, counts as all clients."""


class AccessFrom(StrEnum):
    """Who may reach the model port; Unmanaged leaves this decision to other network policies."""

    SAME_NAMESPACE = "SameNamespace"
    CLIENTS = "Clients"
    EVERYONE = "Everyone"
    UNMANAGED = "Unmanaged"


class NetworkAccess(ApiModel):
    """NetworkPolicy for ingress of the pods. The policy also admits the operator and monitoring to the status port."""

    model_config = schema_config_with_rules(
        SchemaRule(
            rule="(self.from == 'Clients') == has(self.clients)",
            message="spec.networkAccess.clients must be set if from is Clients, and only then",
        )
    )

    access_from: AccessFrom = Field(
        AccessFrom.SAME_NAMESPACE,
        alias="from",
        description="Who may reach the model port. SameNamespace: pods of this namespace, and the gateways of the"
        " installation. Clients: the list in clients. Everyone: all namespaces, and with a Service of another type than"
        " ClusterIP all addresses. Unmanaged: the operator creates no NetworkPolicy. Everyone and Unmanaged require a"
        " class with limits.allowAllClients.",
    )
    clients: Annotated[tuple[Block, ...], Field(max_length=16)] | None = Field(
        None,
        description="Clients that may reach the model port, as peers of a NetworkPolicy, only with from Clients. An"
        " empty list allows no client.",
    )

    @property
    def is_managed(self) -> bool:
        """Return True if the operator creates a NetworkPolicy."""
        return self.access_from is not AccessFrom.UNMANAGED
