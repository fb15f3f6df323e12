"""spec.pod: where pods may run, written as in a Pod: taints, affinity, and how pods are spread."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from gaudi_operator.api.base import ApiModel, KeyText, LabelValue, NamespaceName
from gaudi_operator.api.schema_keywords import Rule, list_map, rules, validated_by
from gaudi_operator.api.v1alpha1.selectors import (
    NO_VALUES_OF_EXISTENCE,
    VALUES_OF_A_COMPARISON,
    ComparedValues,
    LabelKey,
    LabelSelector,
)


class TolerationOperator(StrEnum):
    """Comparison operator of a toleration."""

    EXISTS = "Exists"
    EQUAL = "Equal"


class TaintEffect(StrEnum):
    """Effect of a taint."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Toleration(ApiModel):
    """Toleration of a taint, as in a Pod."""

    model_config = validated_by(
        Rule(
            rule="self.operator != 'Exists' || !has(self.value)",
            message="value must be left out when operator is Exists",
        ),
        Rule(
            rule="self.operator != 'Equal' || has(self.key)",
            message="key is needed when operator is Equal",
        ),
        Rule(
            rule="!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            message="tolerationSeconds is only for effect NoExecute",
        ),
    )

    key: KeyText | None = Field(None, description="Key of the taint. With operator Exists, all taints when left out.")
    operator: TolerationOperator = Field(
        TolerationOperator.EQUAL, description="How value is compared: Equal, or Exists for any value."
    )
    value: LabelValue | None = Field(None, description="Value of the taint, for operator Equal.")
    effect: TaintEffect | None = Field(
        None, description="Effect of the taint: NoSchedule, PreferNoSchedule or NoExecute. All effects when left out."
    )
    toleration_seconds: Annotated[int, Field(ge=0, le=604_800)] | None = Field(
        None,
        description="How long a taint with effect NoExecute is tolerated, in seconds. Without limit when left out.",
    )


class NodeOperator(StrEnum):
    """Comparison of a label of a node."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


class NodeRequirement(ApiModel):
    """Comparison of one label or field of a node."""

    model_config = validated_by(
        VALUES_OF_A_COMPARISON,
        NO_VALUES_OF_EXISTENCE,
        Rule(
            rule="!(self.operator in ['Gt', 'Lt']) ||"
            " (has(self.values) && self.values.size() == 1 && self.values[0].matches('^[0-9]+$'))",
            message="values must hold one whole number when operator is Gt or Lt",
        ),
    )

    key: LabelKey = Field(description="Key of the label, or name of the field.")
    operator: NodeOperator = Field(description="Comparison: In, NotIn, Exists, DoesNotExist, Gt or Lt.")
    values: ComparedValues = Field(
        (), description="Values that In and NotIn compare with; one whole number for Gt and Lt."
    )


class NodeSelectorTerm(ApiModel):
    """Comparisons that must all be true for a node."""

    match_expressions: Annotated[tuple[NodeRequirement, ...], Field(max_length=8)] = Field(
        (), description="Comparisons of labels of the node."
    )
    match_fields: Annotated[tuple[NodeRequirement, ...], Field(max_length=2)] = Field(
        (),
        description="Comparisons of the field metadata.name, the name of the node.",
        json_schema_extra=rules(
            Rule(
                rule="self.all(field, field.key == 'metadata.name' && field.operator in ['In', 'NotIn'] &&"
                " has(field.values) && field.values.size() == 1)",
                message="must compare metadata.name with one name by In or NotIn; use matchExpressions for labels",
            )
        ),
    )


class NodeSelector(ApiModel):
    """Terms for nodes. At least one must match."""

    node_selector_terms: Annotated[tuple[NodeSelectorTerm, ...], Field(min_length=1, max_length=8)] = Field(
        description="Terms for nodes. At least one must match."
    )


Weight = Annotated[int, Field(ge=1, le=100)]


class PreferredNodes(ApiModel):
    """Nodes that are preferred, with a weight."""

    weight: Weight = Field(description="Weight of the preference relative to the others.")
    preference: NodeSelectorTerm = Field(description="Term that matches the preferred nodes.")


class NodeAffinity(ApiModel):
    """Nodes that pods may run on."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = Field(
        None, description="Term that a node must match."
    )
    preferred_during_scheduling_ignored_during_execution: Annotated[tuple[PreferredNodes, ...], Field(max_length=8)] = (
        Field((), description="Terms that a node should match.")
    )


class PodAffinityTerm(ApiModel):
    """Selection of other pods, with the topology domain that contains the pods."""

    label_selector: LabelSelector | None = Field(
        None, description="Labels of the other pods. The pods of this resource when left out."
    )
    topology_key: LabelKey = Field(
        description="Label of nodes that defines a place: nodes with the same value are one place. For example"
        " kubernetes.io/hostname."
    )
    namespaces: Annotated[tuple[NamespaceName, ...], Field(max_length=8)] = Field(
        (),
        description="Namespaces of the other pods. The namespace of this resource when namespaceSelector is left out"
        " too.",
    )
    namespace_selector: LabelSelector | None = Field(
        None, description="Labels of further namespaces of the other pods. All namespaces when it is empty."
    )


class PreferredPods(ApiModel):
    """Other pods that are preferred or avoided, with a weight."""

    weight: Weight = Field(description="Weight of the preference relative to the others.")
    pod_affinity_term: PodAffinityTerm = Field(description="Other pods, and the size of the place that they are in.")


class PodAffinity(ApiModel):
    """Other pods that are preferred or avoided."""

    required_during_scheduling_ignored_during_execution: Annotated[tuple[PodAffinityTerm, ...], Field(max_length=8)] = (
        Field((), description="Terms that must be true for the place of a node.")
    )
    preferred_during_scheduling_ignored_during_execution: Annotated[tuple[PreferredPods, ...], Field(max_length=8)] = (
        Field((), description="Terms that should be true for the place of a node.")
    )


class Affinity(ApiModel):
    """Affinity of the pods, as in a Pod."""

    node_affinity: NodeAffinity | None = Field(None, description="Nodes that pods run on.")
    pod_affinity: PodAffinity | None = Field(None, description="Other pods that pods run near.")
    pod_anti_affinity: PodAffinity | None = Field(None, description="Other pods that pods run away from.")


class WhenUnsatisfiable(StrEnum):
    """The reaction to a pod that cannot be spread as requested."""

    DO_NOT_SCHEDULE = "DoNotSchedule"
    SCHEDULE_ANYWAY = "ScheduleAnyway"


class NodePolicy(StrEnum):
    """Whether nodes that the pod cannot use are counted."""

    HONOR = "Honor"
    IGNORE = "Ignore"


OWN_NAME_LABEL = "inference.gaudi.dev/name"
"""The label by which pods are selected if no selector is given."""


class TopologySpreadConstraint(ApiModel):
    """Rule for spreading pods over topology domains, as in a Pod."""

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
        description="Maximum difference between the number of pods in a place and in the place with the fewest."
    )
    topology_key: LabelKey = Field(
        description="Label of nodes that defines a place: nodes with the same value are one place. For example"
        " topology.kubernetes.io/zone."
    )
    when_unsatisfiable: WhenUnsatisfiable = Field(
        description="What happens to a pod that cannot be spread: DoNotSchedule leaves it pending, ScheduleAnyway"
        " schedules it in the best place."
    )
    label_selector: LabelSelector | None = Field(
        None,
        description=f"Labels of the pods that are counted. The pods of this resource, by their label {OWN_NAME_LABEL},"
        " when left out.",
    )
    min_domains: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        None,
        description="Minimum number of places. If there are fewer, the place with the fewest pods counts as empty. Only"
        " with DoNotSchedule.",
    )
    match_label_keys: Annotated[tuple[LabelKey, ...], Field(max_length=8)] = Field(
        (),
        description="Keys of labels whose values must be those of the new pod for another pod to be counted. With"
        " inference.gaudi.dev/revision, each revision is spread separately.",
    )
    node_affinity_policy: NodePolicy | None = Field(
        None, description="Whether only nodes that nodeSelector and nodeAffinity match are counted. Default: Honor."
    )
    node_taints_policy: NodePolicy | None = Field(
        None, description="Whether nodes with taints that are not tolerated are not counted. Default: Ignore."
    )


TopologySpreadConstraints = Annotated[
    tuple[TopologySpreadConstraint, ...],
    Field(max_length=8, json_schema_extra=list_map("topologyKey", "whenUnsatisfiable")),
]
