"""spec.pod: where pods may run, written as in a Pod: taints, affinity, and how pods are spread."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from gaudi_operator.api.base import ApiModel, KeyText, LabelValue, NamespaceName
from gaudi_operator.api.schema_keywords import Rule, config_with_rules, list_map_keywords, rules_keyword
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

    model_config = config_with_rules(
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

    key: KeyText | None = Field(None, description="Key of the taint. When left out with operator Exists: all taints.")
    operator: TolerationOperator = Field(
        TolerationOperator.EQUAL, description="Comparison: Equal compares value, Exists accepts any value."
    )
    value: LabelValue | None = Field(None, description="Value of the taint, for operator Equal.")
    effect: TaintEffect | None = Field(
        None, description="Effect of the taint: NoSchedule, PreferNoSchedule or NoExecute. When left out: all effects."
    )
    toleration_seconds: Annotated[int, Field(ge=0, le=604_800)] | None = Field(
        None,
        description="Time in seconds that a taint with effect NoExecute is tolerated. When left out: no limit.",
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

    model_config = config_with_rules(
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
    values: ComparedValues = Field((), description="Values for In and NotIn, or one whole number for Gt and Lt.")


class NodeSelectorTerm(ApiModel):
    """Comparisons that must all be true for a node."""

    match_expressions: Annotated[tuple[NodeRequirement, ...], Field(max_length=8)] = Field(
        (), description="Comparisons of labels of the node."
    )
    match_fields: Annotated[tuple[NodeRequirement, ...], Field(max_length=2)] = Field(
        (),
        description="Comparisons of the field metadata.name, the name of the node.",
        json_schema_extra=rules_keyword(
            Rule(
                rule="self.all(field, field.key == 'metadata.name' && field.operator in ['In', 'NotIn'] &&"
                " has(field.values) && field.values.size() == 1)",
                message="must compare metadata.name with one name by In or NotIn; use matchExpressions for labels",
            )
        ),
    )


class NodeSelector(ApiModel):
    """Terms for nodes. At least one term must match."""

    node_selector_terms: Annotated[tuple[NodeSelectorTerm, ...], Field(min_length=1, max_length=8)] = Field(
        description="Terms for nodes. At least one term must match."
    )


Weight = Annotated[int, Field(ge=1, le=100)]


class PreferredNodes(ApiModel):
    """Nodes that are preferred, with a weight."""

    weight: Weight = Field(description="Weight relative to other preferences.")
    preference: NodeSelectorTerm = Field(description="Term that matches the preferred nodes.")


class NodeAffinity(ApiModel):
    """Nodes that pods may run on."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = Field(
        None, description="Terms for nodes. A node must match at least one term."
    )
    preferred_during_scheduling_ignored_during_execution: Annotated[tuple[PreferredNodes, ...], Field(max_length=8)] = (
        Field((), description="Terms that a node should match.")
    )


class PodAffinityTerm(ApiModel):
    """Selection of other pods, with the topology domain that contains the pods."""

    label_selector: LabelSelector | None = Field(
        None, description="Labels of the other pods. When left out: the pods of this resource."
    )
    topology_key: LabelKey = Field(
        description="Node label that defines topology domains, such as kubernetes.io/hostname. Nodes with the same"
        " value are one domain."
    )
    namespaces: Annotated[tuple[NamespaceName, ...], Field(max_length=8)] = Field(
        (),
        description="Namespaces of the other pods. Without this field and namespaceSelector: the namespace of this"
        " resource.",
    )
    namespace_selector: LabelSelector | None = Field(
        None, description="Labels of further namespaces. An empty selector selects all namespaces."
    )


class PreferredPods(ApiModel):
    """Other pods that are preferred or avoided, with a weight."""

    weight: Weight = Field(description="Weight relative to other preferences.")
    pod_affinity_term: PodAffinityTerm = Field(description="Other pods, and their topology domain.")


class PodAffinity(ApiModel):
    """Other pods that are preferred or avoided."""

    required_during_scheduling_ignored_during_execution: Annotated[tuple[PodAffinityTerm, ...], Field(max_length=8)] = (
        Field((), description="Terms that the topology domain of a node must meet.")
    )
    preferred_during_scheduling_ignored_during_execution: Annotated[tuple[PreferredPods, ...], Field(max_length=8)] = (
        Field((), description="Terms that the topology domain of a node should meet.")
    )


class Affinity(ApiModel):
    """Affinity of the pods, as in a Pod."""

    node_affinity: NodeAffinity | None = Field(None, description="Nodes on which the pods run.")
    pod_affinity: PodAffinity | None = Field(None, description="Other pods near which the pods run.")
    pod_anti_affinity: PodAffinity | None = Field(None, description="Other pods that the pods avoid.")


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

    model_config = config_with_rules(
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
            message=f"matchLabelKeys must not name a key of labelSelector, which is {OWN_NAME_LABEL} when "
            "labelSelector is left out",
        ),
    )

    max_skew: Annotated[int, Field(ge=1, le=1000)] = Field(
        description="Maximum difference between the number of pods in a topology domain and in the domain with the"
        " fewest pods."
    )
    topology_key: LabelKey = Field(
        description="Node label that defines topology domains, such as topology.kubernetes.io/zone. Nodes with the"
        " same value are one domain."
    )
    when_unsatisfiable: WhenUnsatisfiable = Field(
        description="Reaction to a pod that cannot be spread: DoNotSchedule leaves the pod pending, ScheduleAnyway"
        " selects the best domain."
    )
    label_selector: LabelSelector | None = Field(
        None,
        description="Labels of the pods that are counted. When left out: the pods of this resource, by the label"
        f" {OWN_NAME_LABEL}.",
    )
    min_domains: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        None,
        description="Minimum number of topology domains. If there are fewer, the domain with the fewest pods counts"
        " as empty. Only with DoNotSchedule.",
    )
    match_label_keys: Annotated[tuple[LabelKey, ...], Field(max_length=8)] = Field(
        (),
        description="Keys of labels. Only pods with the same values of these labels as the new pod are counted. With"
        " inference.gaudi.dev/revision, each revision is spread separately.",
    )
    node_affinity_policy: NodePolicy | None = Field(
        None,
        description="Honor counts only nodes that match nodeSelector and nodeAffinity. Ignore counts all nodes."
        " Default: Honor.",
    )
    node_taints_policy: NodePolicy | None = Field(
        None,
        description="Honor counts only nodes whose taints the pods tolerate. Ignore counts all nodes. Default: Ignore.",
    )


TopologySpreadConstraints = Annotated[
    tuple[TopologySpreadConstraint, ...],
    Field(max_length=8, json_schema_extra=list_map_keywords("topologyKey", "whenUnsatisfiable")),
]
