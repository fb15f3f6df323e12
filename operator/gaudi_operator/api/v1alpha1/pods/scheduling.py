"""spec.pod: where pods may run, written as in a Pod: taints, affinity, and how pods are spread."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from gaudi_operator.api.base import ApiModel, KeyText, LabelValue, NamespaceName, Rule, list_map, rules, validated_by
from gaudi_operator.api.v1alpha1.selectors import (
    NO_VALUES_OF_EXISTENCE,
    VALUES_OF_A_COMPARISON,
    ComparedValues,
    LabelKey,
    LabelSelector,
)


class TolerationOperator(StrEnum):
    """How a toleration compares."""

    EXISTS = "Exists"
    EQUAL = "Equal"


class TaintEffect(StrEnum):
    """Effect of a taint."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Toleration(ApiModel):
    """A taint that the pods tolerate, written as in a Pod."""

    model_config = validated_by(
        Rule(
            rule="self.operator != 'Exists' || !has(self.value)",
            message="spec.pod.tolerations: value must be left out when operator is Exists",
        ),
        Rule(
            rule="self.operator != 'Equal' || has(self.key)",
            message="spec.pod.tolerations: key is needed when operator is Equal",
        ),
        Rule(
            rule="!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            message="spec.pod.tolerations: tolerationSeconds is only for effect NoExecute",
        ),
    )

    key: KeyText | None = Field(None, description="Key of the taint; all taints when left out with Exists.")
    operator: TolerationOperator = Field(TolerationOperator.EQUAL, description="Exists or Equal.")
    value: LabelValue | None = Field(None, description="Value of the taint.")
    effect: TaintEffect | None = Field(None, description="Effect of the taint; all effects when left out.")
    toleration_seconds: Annotated[int, Field(ge=0, le=604_800)] | None = Field(
        None, description="How long a NoExecute taint is tolerated, in seconds."
    )


class NodeOperator(StrEnum):
    """How the label of a node compares."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


class NodeRequirement(ApiModel):
    """One comparison of a label or a field of a node."""

    model_config = validated_by(
        VALUES_OF_A_COMPARISON,
        NO_VALUES_OF_EXISTENCE,
        Rule(
            rule="!(self.operator in ['Gt', 'Lt']) ||"
            " (has(self.values) && self.values.size() == 1 && self.values[0].matches('^[0-9]+$'))",
            message="values must hold one whole number when operator is Gt or Lt",
        ),
    )

    key: LabelKey = Field(description="Key of the label.")
    operator: NodeOperator = Field(description="In, NotIn, Exists, DoesNotExist, Gt or Lt.")
    values: ComparedValues = Field((), description="Values for In and NotIn; one whole number for Gt and Lt.")


class NodeSelectorTerm(ApiModel):
    """Comparisons that must all hold of a node."""

    match_expressions: Annotated[tuple[NodeRequirement, ...], Field(max_length=8)] = Field(
        (), description="Comparisons of the node's labels."
    )
    match_fields: Annotated[tuple[NodeRequirement, ...], Field(max_length=2)] = Field(
        (),
        description="Comparisons of metadata.name, the node's name.",
        json_schema_extra=rules(
            Rule(
                rule="self.all(field, field.key == 'metadata.name' && field.operator in ['In', 'NotIn'] &&"
                " has(field.values) && field.values.size() == 1)",
                message="must compare metadata.name with one name by In or NotIn; labels stand in matchExpressions",
            )
        ),
    )


class NodeSelector(ApiModel):
    """Terms of which one must hold."""

    node_selector_terms: Annotated[tuple[NodeSelectorTerm, ...], Field(min_length=1, max_length=8)] = Field(
        description="Terms of which one must hold."
    )


Weight = Annotated[int, Field(ge=1, le=100)]


class PreferredNodes(ApiModel):
    """Nodes that are preferred."""

    weight: Weight = Field(description="How much it counts beside the others.")
    preference: NodeSelectorTerm = Field(description="What holds of the preferred nodes.")


class NodeAffinity(ApiModel):
    """Which nodes the pods may run on."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = Field(
        None, description="What a node must have."
    )
    preferred_during_scheduling_ignored_during_execution: Annotated[tuple[PreferredNodes, ...], Field(max_length=8)] = (
        Field((), description="What a node should have.")
    )


class PodAffinityTerm(ApiModel):
    """Pods, and how far from them."""

    label_selector: LabelSelector | None = Field(
        None, description="Selects the pods by their labels; the pods of this resource when left out."
    )
    topology_key: LabelKey = Field(
        description="Label of nodes: those with the same value count as one place, for example kubernetes.io/hostname."
    )
    namespaces: Annotated[tuple[NamespaceName, ...], Field(max_length=8)] = Field(
        (), description="Namespaces of the pods; that of this resource when namespaceSelector is left out too."
    )
    namespace_selector: LabelSelector | None = Field(
        None, description="Selects further namespaces of the pods by their labels; all of them when it is empty."
    )


class PreferredPods(ApiModel):
    """Pods that are preferred, or avoided."""

    weight: Weight = Field(description="How much it counts beside the others.")
    pod_affinity_term: PodAffinityTerm = Field(description="Which pods, and how far from them.")


class PodAffinity(ApiModel):
    """Which pods should be near, or far."""

    required_during_scheduling_ignored_during_execution: Annotated[tuple[PodAffinityTerm, ...], Field(max_length=8)] = (
        Field((), description="What must hold of a node's place.")
    )
    preferred_during_scheduling_ignored_during_execution: Annotated[tuple[PreferredPods, ...], Field(max_length=8)] = (
        Field((), description="What should hold of a node's place.")
    )


class Affinity(ApiModel):
    """Where the pods run, written as in a Pod."""

    node_affinity: NodeAffinity | None = Field(None, description="Which nodes the pods run on.")
    pod_affinity: PodAffinity | None = Field(None, description="Which pods they run near.")
    pod_anti_affinity: PodAffinity | None = Field(None, description="Which pods they do not run near.")


class WhenUnsatisfiable(StrEnum):
    """What happens to a pod that would be spread worse than asked for."""

    DO_NOT_SCHEDULE = "DoNotSchedule"
    SCHEDULE_ANYWAY = "ScheduleAnyway"


class NodePolicy(StrEnum):
    """Whether nodes that a pod could not use count."""

    HONOR = "Honor"
    IGNORE = "Ignore"


OWN_NAME_LABEL = "inference.gaudi.dev/name"
"""By which pods are selected where nothing else is said."""


class TopologySpreadConstraint(ApiModel):
    """How pods are spread over places, written as in a Pod."""

    model_config = validated_by(
        Rule(
            rule="!has(self.minDomains) || self.whenUnsatisfiable == 'DoNotSchedule'",
            message="minDomains is only for whenUnsatisfiable DoNotSchedule",
        ),
        Rule(
            rule="!has(self.matchLabelKeys) || self.matchLabelKeys.all(key, has(self.labelSelector) ?"
            " !(has(self.labelSelector.matchLabels) && key in self.labelSelector.matchLabels) &&"
            " !(has(self.labelSelector.matchExpressions) &&"
            " self.labelSelector.matchExpressions.exists(each, each.key == key)) :"
            f" key != '{OWN_NAME_LABEL}')",
            message="matchLabelKeys must not name a key that labelSelector has: when that is left out, it has"
            f" {OWN_NAME_LABEL}",
        ),
    )

    max_skew: Annotated[int, Field(ge=1, le=1000)] = Field(
        description="How many more pods than in the emptiest place may be in another."
    )
    topology_key: LabelKey = Field(
        description="Label of nodes: those with the same value are one place, for example topology.kubernetes.io/zone."
    )
    when_unsatisfiable: WhenUnsatisfiable = Field(
        description="DoNotSchedule leaves a pod without a node, ScheduleAnyway only prefers others."
    )
    label_selector: LabelSelector | None = Field(
        None,
        description="Selects the pods that are counted; those of this resource when left out, by their label"
        f" {OWN_NAME_LABEL}.",
    )
    min_domains: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        None, description="Fewest places: while there are fewer, the emptiest counts as having no pod."
    )
    match_label_keys: Annotated[tuple[LabelKey, ...], Field(max_length=8)] = Field(
        (),
        description="Only pods with the same values of these labels are counted; inference.gaudi.dev/revision counts"
        " each revision by itself.",
    )
    node_affinity_policy: NodePolicy | None = Field(
        None, description="Whether only nodes of nodeSelector and nodeAffinity count; Honor when left out."
    )
    node_taints_policy: NodePolicy | None = Field(
        None, description="Whether nodes with taints that are not tolerated stay uncounted; Ignore when left out."
    )


TopologySpreadConstraints = Annotated[
    tuple[TopologySpreadConstraint, ...],
    Field(max_length=8, json_schema_extra=list_map("topologyKey", "whenUnsatisfiable")),
]
