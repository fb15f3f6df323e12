"""The limits of a GaudiInferenceClass at the door: ValidatingAdmissionPolicies for the API server.

See docs/how-to/classes.md.

Each limit that a spec shows is one row of RULES (class_rules.py). The operator judges again what passes here, and what
only the rendered pod shows (core/admission/class_limits.py, spec_limits.py). The policies refuse nothing that the
operator would allow.

Every class is a parameter, and match conditions pick the one that counts for a resource. An update is judged by what it
changes: a class that was made tighter refuses no edit of something else. A second policy warns of the rest: the
operator judges the whole spec, so it runs no edited spec that is still beyond the limits.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from gaudi_operator.api.class_rules import RULES, SPEC, Rule
from gaudi_operator.api.v1alpha1 import inference_class, resource
from gaudi_operator.api.v1alpha1.resource import API_VERSION, GROUP

Manifest = dict[str, Any]

NAME, CONTROLLER, NAMESPACES = "NAME-OF-THE-CHART", "CONTROLLER-OF-THE-CHART", "NAMESPACES-OF-THE-CHART"
"""Stand in the manifests for what the chart's values say."""


def policies(
    name: str = NAME, controller: str = CONTROLLER, namespaces: str | list[str] = NAMESPACES
) -> list[Manifest]:
    """The policies and their bindings, for the resources of an installation: in `namespaces`, in all when empty."""
    return [
        _policy(f"{name}-classes", inference_class.KIND, resource.PLURAL, _of_classes(controller)),
        _binding(f"{name}-classes", namespaces),
        _policy(f"{name}-class-warnings", inference_class.KIND, resource.PLURAL, _class_warnings(controller)),
        _binding(f"{name}-class-warnings", namespaces, action="Warn"),
        _policy(f"{name}-scale", resource.KIND, f"{resource.PLURAL}/scale", _of_scale()),
        _binding(f"{name}-scale", namespaces),
    ]


def _of_classes(controller: str) -> Manifest:
    """Refuse what a resource asks for beyond the limits of its class, unless the same class let it in before."""
    return {
        "matchConditions": [
            *_class_that_counts(controller),
            {
                "name": "spec-changed",
                "expression": "request.operation == 'CREATE' || object.spec != oldObject.spec",
            },
        ],
        "variables": [
            {"name": "kept", "expression": f"request.operation == 'UPDATE' && {_SAME_CLASS}"},
            _LABELS,
            *(
                each
                for number, rule in enumerate(RULES)
                for each in _variables(number, rule, "variables.kept", new=True)
            ),
        ],
        "validations": [
            {**_for_namespace(f"variables.kept || {_selected()}", _CHANGE_CLASS), "reason": "Forbidden"},
            *({**_validation(number, rule, _CHANGE), "reason": "Forbidden"} for number, rule in enumerate(RULES)),
        ],
    }


def _class_warnings(controller: str) -> Manifest:
    """Warn of what an update keeps although it is beyond the limits, which were made tighter since it was written."""
    return {
        "matchConditions": [
            *_class_that_counts(controller),
            {
                "name": "spec-changed",
                "expression": f"request.operation == 'UPDATE' && object.spec != oldObject.spec && {_SAME_CLASS}",
            },
        ],
        "variables": [
            _LABELS,
            *(each for number, rule in enumerate(RULES) for each in _variables(number, rule, "true", new=False)),
        ],
        "validations": [
            _for_namespace(_selected(), _NOT_RUN),
            *(_validation(number, rule, _NOT_RUN) for number, rule in enumerate(RULES)),
        ],
    }


_LABELS = {"name": "labels", "expression": "namespaceObject.metadata.?labels.orValue({})"}
_SAME_CLASS = "object.spec.?className.orValue('') == oldObject.spec.?className.orValue('')"
_CHANGE = ": change it, or use another class."
_CHANGE_CLASS = ". Name a class that does."
_NOT_RUN = (
    ". It was written before the class said so. What serves goes on serving, but the operator does not run this change:"
    " change it, or use another class."
)


def _class_that_counts(controller: str) -> list[Manifest]:
    return [
        {"name": "served-here", "expression": f"params.spec.controller == '{controller}'"},
        {
            "name": "the-class-that-counts",
            "expression": "has(object.spec.className) ? object.spec.className == params.metadata.name :"
            " params.spec.?default.orValue(false) == true",
        },
    ]


def _variables(number: int, rule: Rule, compared: str, *, new: bool) -> Iterator[Manifest]:
    """Yield the variables of one rule: what the old spec asks for if `compared` (CEL) holds, and what is not allowed.

    What is not allowed is what the new spec adds, or what it keeps if `new` is false.
    """
    had, wrong = f"had{number}", f"wrong{number}"
    old = rule.of_class(rule.asked).replace(SPEC, "oldObject.spec")
    yield {"name": had, "expression": old if compared == "true" else f"{compared} ? ({old}) : []"}
    asked = rule.of_class(rule.asked).replace(SPEC, "object.spec")
    known = f"{'!' if new else ''}(x in variables.{had})"
    found = f"({asked}).filter(x, !({rule.of_class(rule.allowed)}) && {known})"
    yield {"name": wrong, "expression": f"{rule.counts} ? {found} : []"}


def _validation(number: int, rule: Rule, remedy: str) -> Manifest:
    listed = rule.of_class("(LIMIT.size() > 0 ? LIMIT.join(', ') : 'none')")
    wrong = rule.of_class(rule.wrong) or f"' is not among what is allowed (limits.{rule.limit}: ' + {listed} + ')'"
    return {
        "expression": f"variables.wrong{number}.size() == 0",
        "messageExpression": f"'{rule.field}' + variables.wrong{number}[0] + {wrong} + ', as class ' +"
        f" params.metadata.name + ' says{remedy}'",
        "message": f"{rule.field.strip()} is beyond limits.{rule.limit} of the class{remedy}",
    }


def _selected() -> str:
    """CEL: whether the class selects the namespace."""
    holds = {
        "In": "e.key in variables.labels && variables.labels[e.key] in e.values",
        "NotIn": "!(e.key in variables.labels && variables.labels[e.key] in e.values)",
        "Exists": "e.key in variables.labels",
        "DoesNotExist": "!(e.key in variables.labels)",
    }
    *others, last = (f"(e.operator == '{operator}' ? {cel} : " for operator, cel in holds.items())
    every = "".join((*others, last)) + "false" + ")" * len(holds)
    return (
        "!has(params.spec.namespaces) || (params.spec.namespaces.?matchLabels.orValue({}).all(k,"
        " k in variables.labels && variables.labels[k] == params.spec.namespaces.matchLabels[k]) &&"
        f" params.spec.namespaces.?matchExpressions.orValue([]).all(e, {every}))"
    )


def _for_namespace(expression: str, remedy: str) -> Manifest:
    return {
        "expression": expression,
        "messageExpression": "(has(object.spec.className) ? 'spec.className ' : 'spec.className is left out, and the"
        " default class ') + params.metadata.name + ' is not for namespace ' + object.metadata.namespace + ': its"
        f" spec.namespaces does not select it{remedy}'",
        "message": f"The class is not for this namespace: its spec.namespaces does not select it{remedy}",
    }


def _of_scale() -> Manifest:
    """A Scale says neither its class nor its labels. Its GaudiInference does, whose status bears what is allowed."""
    return {
        "matchConditions": [
            {"name": "of-this-resource", "expression": "params.metadata.name == object.metadata.name"},
            {"name": "limited", "expression": "params.?status.?maxReplicas.hasValue()"},
            {
                "name": "scaled-up",
                "expression": "object.?spec.?replicas.orValue(0) > oldObject.?spec.?replicas.orValue(0)",
            },
        ],
        "validations": [
            {
                "expression": "object.spec.replicas <= params.status.maxReplicas",
                "messageExpression": "'replicas ' + string(object.spec.replicas) + ' is above ' +"
                " string(params.status.maxReplicas) + ', the most that the class of ' + params.metadata.name +"
                " ' allows (status.maxReplicas): ask for fewer, or use another class.'",
                "message": "replicas is above status.maxReplicas: ask for fewer, or use another class.",
                "reason": "Forbidden",
            }
        ],
    }


def _policy(name: str, parameters: str, what: str, judged: Mapping[str, Any]) -> Manifest:
    operations = ["UPDATE"] if "/" in what else ["CREATE", "UPDATE"]
    rule = {"apiGroups": [GROUP], "apiVersions": ["*"], "operations": operations, "resources": [what]}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "paramKind": {"apiVersion": API_VERSION, "kind": parameters},
            "matchConstraints": {"resourceRules": [rule]},
            **judged,
        },
    }


def _binding(name: str, namespaces: str | list[str], action: str = "Deny") -> Manifest:
    where = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces}
    matched = {"matchResources": {"namespaceSelector": {"matchExpressions": [where]}}} if namespaces else {}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {
            "policyName": name,
            "validationActions": [action],
            # Without any class nothing is limited; what names a class that is not there gets no pods of the operator.
            "paramRef": {"selector": {}, "parameterNotFoundAction": "Allow"},
            **matched,
        },
    }
