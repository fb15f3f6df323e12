"""spec.service and spec.networkAccess: how clients reach the replicas."""

from enum import StrEnum
from ipaddress import ip_network
from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from gaudi_operator.api.base import Annotations, ApiModel
from gaudi_operator.api.schema_keywords import Rule, config_with_rules, rules_keyword
from gaudi_operator.api.v1alpha1.selectors import LabelSelector


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
        " require an API key, a list of clients or insecure true.",
    )
    port: Annotated[int, Field(ge=1, le=65_535)] = Field(80, description="Port of the Service.")
    annotations: Annotations = Field(
        {}, description="Annotations of the Service, such as annotations for a load balancer."
    )
    insecure: bool = Field(
        False,
        description="Whether a model may be published outside the cluster without an API key and without a list of"
        " clients. If true, everyone who reaches the Service may use the model.",
    )


def _cel_is_protected(spec: str) -> str:
    """Return CEL that is true unless a model is published without protection. `spec` is an object or optional."""
    return (
        f"({spec}.?service.?type.orValue('ClusterIP') == 'ClusterIP' ||"
        f" {spec}.?service.?insecure.orValue(false) ||"
        f" {spec}.?server.?apiKeySecretRef.hasValue() ||"
        f" {spec}.?networkAccess.?enabled.orValue(true) && !{spec}.?networkAccess.?allowAllClients.orValue(false)"
        f" && {spec}.?networkAccess.?clients.hasValue())"
    )


PUBLISHED = (
    "spec.service.type other than ClusterIP publishes the model to everyone who can reach the Service: set "
    "server.apiKeySecretRef, list the clients in networkAccess.clients, or set service.insecure"
)
NOT_PUBLISHED = Rule(
    rule=f"{_cel_is_protected('self')} || !{_cel_is_protected('oldSelf')}", message=PUBLISHED, before=True
)
REACHED_FROM_OUTSIDE = Rule(
    rule="self.service.type == 'ClusterIP' || !self.networkAccess.enabled || self.networkAccess.allowAllClients ||"
    " has(self.networkAccess.clients)",
    message="spec.service.type other than ClusterIP needs networkAccess.clients: without clients, only pods of this "
    "namespace reach the model. List ipBlock ranges in clients, or set networkAccess.allowAllClients",
)


def _validate_cidr(cidr: str) -> str:
    """Return `cidr`. Raises ValueError if it is not a range of addresses."""
    ip_network(cidr, strict=False)
    return cidr


Cidr = Annotated[
    str,
    StringConstraints(min_length=1, max_length=43),
    AfterValidator(_validate_cidr),
    Field(
        json_schema_extra=rules_keyword(
            Rule(rule="isCIDR(self)", message="must be a range like 10.0.0.0/8 or fd00::/8")
        )
    ),
]


SHORTEST_PREFIX = 8
"""Prefix length of the largest range that names clients; a larger range, such as 0.0.0.0/0, counts as all clients."""


class IpBlock(ApiModel):
    """Range of network addresses outside the cluster."""

    cidr: Cidr = Field(description="Range of addresses, such as 10.0.0.0/8.")
    excluded: Annotated[tuple[Cidr, ...], Field(max_length=16)] = Field(
        (), alias="except", description="Ranges within cidr that are not allowed."
    )


class NetworkClient(ApiModel):
    """Client that may reach the model port, written as a peer of a NetworkPolicy."""

    model_config = config_with_rules(
        Rule(
            rule="!has(self.ipBlock) || !(has(self.podSelector) || has(self.namespaceSelector))",
            message="spec.networkAccess.clients: ipBlock cannot be combined with selectors: write two entries",
        ),
        Rule(
            rule="has(self.podSelector) || has(self.namespaceSelector) || has(self.ipBlock)",
            message="spec.networkAccess.clients: every entry needs podSelector, namespaceSelector or ipBlock",
        ),
    )
    pod_selector: LabelSelector | None = Field(
        None,
        description="Labels of the client pods. When namespaceSelector is left out, only pods in this namespace count.",
    )
    namespace_selector: LabelSelector | None = Field(
        None,
        description="Labels of the client namespaces. When podSelector is left out, all pods of these namespaces"
        " count.",
    )
    ip_block: IpBlock | None = Field(
        None, description="Range of addresses outside the cluster. Cannot be combined with a selector."
    )


class NetworkAccess(ApiModel):
    """NetworkPolicy for ingress of the pods. The policy also admits the operator and monitoring to the status port."""

    model_config = config_with_rules(
        Rule(
            rule="!self.allowAllClients || !has(self.clients) || self.clients.size() == 0",
            message="spec.networkAccess.clients has no effect while allowAllClients is true: remove clients, or set"
            " allowAllClients to false",
        )
    )

    enabled: bool = Field(
        True,
        description="Whether the operator creates a NetworkPolicy for the pods. false requires a class with"
        " limits.allowAllClients.",
    )
    allow_all_clients: bool = Field(
        False,
        description="Whether all namespaces may reach the model port. true requires a class with"
        " limits.allowAllClients.",
    )
    clients: Annotated[tuple[NetworkClient, ...], Field(max_length=16)] | None = Field(
        None,
        description="Clients that may reach the model port. When left out: the pods of this namespace and the"
        " gateways of the installation. A list replaces this default. An empty list allows no client.",
    )
