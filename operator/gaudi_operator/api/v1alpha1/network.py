"""spec.service and spec.networkAccess: how clients reach the replicas."""

from enum import StrEnum
from ipaddress import ip_network
from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from gaudi_operator.api.base import Annotations, ApiModel, Rule, rules, validated_by
from gaudi_operator.api.v1alpha1.selectors import LabelSelector


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
    insecure: bool = Field(
        False,
        description="Whether a type that is reachable from outside the cluster needs no key: anyone who reaches it"
        " may then use the model.",
    )


def _is_guarded(spec: str) -> str:
    """CEL: whether a key or a list of clients guards a published model. `spec` is an object or an optional one."""
    return (
        f"({spec}.?service.?type.orValue('ClusterIP') == 'ClusterIP' ||"
        f" {spec}.?service.?insecure.orValue(false) ||"
        f" {spec}.?server.?apiKeySecretRef.hasValue() ||"
        f" {spec}.?networkAccess.?enabled.orValue(true) && !{spec}.?networkAccess.?allowAllClients.orValue(false)"
        f" && {spec}.?networkAccess.?clients.hasValue())"
    )


PUBLISHED = (
    "spec.service.type other than ClusterIP publishes the model to everyone who reaches it: set server.apiKeySecretRef,"
    " list the clients in networkAccess.clients, or set service.insecure"
)
NOT_PUBLISHED = Rule(rule=f"{_is_guarded('self')} || !{_is_guarded('oldSelf')}", message=PUBLISHED, before=True)
REACHED_FROM_OUTSIDE = Rule(
    rule="self.service.type == 'ClusterIP' || !self.networkAccess.enabled || self.networkAccess.allowAllClients ||"
    " has(self.networkAccess.clients)",
    message="spec.service.type other than ClusterIP needs networkAccess.clients: when it is left out, only pods of this"
    " namespace reach the model. List ipBlock ranges there, or set networkAccess.allowAllClients",
)


def _is_range(text: str) -> str:
    """Return a range of addresses as it is. Raises ValueError for a text that is none."""
    ip_network(text, strict=False)
    return text


Cidr = Annotated[
    str,
    StringConstraints(min_length=1, max_length=43),
    AfterValidator(_is_range),
    Field(json_schema_extra=rules(Rule(rule="isCIDR(self)", message="must be a range like 10.0.0.0/8 or fd00::/8"))),
]


SHORTEST_PREFIX = 8
"""Prefix length of the largest range that names clients; a larger range, such as 0.0.0.0/0, counts as all clients."""


class IpBlock(ApiModel):
    """Addresses outside the cluster."""

    cidr: Cidr = Field(description="Range of addresses.")
    excluded: Annotated[tuple[Cidr, ...], Field(max_length=16)] = Field(
        (), alias="except", description="Ranges within it that may not."
    )


class Client(ApiModel):
    """Who may reach the model port, written as a peer of a NetworkPolicy."""

    model_config = validated_by(
        Rule(
            rule="!has(self.ipBlock) || !(has(self.podSelector) || has(self.namespaceSelector))",
            message="spec.networkAccess.clients: ipBlock stands alone, give selectors in an entry of their own",
        ),
        Rule(
            rule="has(self.podSelector) || has(self.namespaceSelector) || has(self.ipBlock)",
            message="spec.networkAccess.clients: every entry needs podSelector, namespaceSelector or ipBlock",
        ),
    )
    pod_selector: LabelSelector | None = Field(
        None, description="Pods of the namespaces that namespaceSelector names, of this one when that is left out."
    )
    namespace_selector: LabelSelector | None = Field(
        None, description="Namespaces; all their pods when podSelector is left out."
    )
    ip_block: IpBlock | None = Field(None, description="Addresses outside the cluster.")


class NetworkAccess(ApiModel):
    """Who may reach the pods, as a NetworkPolicy for ingress.

    The status port is open to the operator, and to the monitoring that the installation names.
    """

    model_config = validated_by(
        Rule(
            rule="!self.allowAllClients || !has(self.clients) || self.clients.size() == 0",
            message="spec.networkAccess.clients has no effect while allowAllClients is true: set it to false",
        )
    )

    enabled: bool = Field(
        True, description="Whether a NetworkPolicy is made. To set it to false a class must allow all clients."
    )
    allow_all_clients: bool = Field(
        False,
        description="Whether every namespace may reach the model port. A class must allow it (limits.allowAllClients).",
    )
    clients: Annotated[tuple[Client, ...], Field(max_length=16)] | None = Field(
        None,
        description="Who may reach the model port. When left out: the pods of this namespace and the gateways that the"
        " installation names. A list takes the place of both; an empty list allows no client.",
    )
