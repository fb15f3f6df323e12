"""The limits of a GaudiInferenceClass at the door: ValidatingAdmissionPolicies for the API server.

See docs/how-to/classes.md.

Each limit that a spec shows is one row of RULES (class_rules.py). The operator judges again what passes here, and what
only the rendered pod shows (core/admission/class_limits.py, spec_limits.py). The policies refuse nothing that the
operator would allow.

Every class is a parameter, and match conditions pick the one that counts for a resource. An update is judged by what it
changes: a class that was made tighter refuses no edit of something else.
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
        _policy(f"{name}-scale", resource.KIND, f"{resource.PLURAL}/scale", _of_scale()),
        _binding(f"{name}-scale", namespaces),
    ]


def _of_classes(controller: str) -> Manifest:
    return {
        "matchConditions": [
            {"name": "served-here", "expression": f"params.spec.controller == '{controller}'"},
            {
                "name": "the-class-that-counts",
                "expression": "has(object.spec.className) ? object.spec.className == params.metadata.name :"
                " params.spec.?default.orValue(false) == true",
            },
            {
                "name": "spec-changed",
                "expression": "request.operation == 'CREATE' || object.spec != oldObject.spec",
            },
        ],
        "variables": [
            {
                # Of another class nothing was judged yet.
                "name": "kept",
                "expression": "request.operation == 'UPDATE' &&"
                " object.spec.?className.orValue('') == oldObject.spec.?className.orValue('')",
            },
            {"name": "labels", "expression": "namespaceObject.metadata.?labels.orValue({})"},
            *(each for number, rule in enumerate(RULES) for each in _variables(number, rule)),
        ],
        "validations": [_for_namespace(), *(_validation(number, rule) for number, rule in enumerate(RULES))],
    }


def _variables(number: int, rule: Rule) -> Iterator[Manifest]:
    """What is asked, not allowed, and new."""
    had, wrong = f"had{number}", f"wrong{number}"
    yield {
        "name": had,
        "expression": f"variables.kept ? ({rule.of_class(rule.asked).replace(SPEC, 'oldObject.spec')}) : []",
    }
    asked = rule.of_class(rule.asked).replace(SPEC, "object.spec")
    new = f"({asked}).filter(x, !({rule.of_class(rule.allowed)}) && !(x in variables.{had}))"
    yield {"name": wrong, "expression": f"{rule.counts} ? {new} : []"}


def _validation(number: int, rule: Rule) -> Manifest:
    listed = rule.of_class("(LIMIT.size() > 0 ? LIMIT.join(', ') : 'none')")
    wrong = rule.of_class(rule.wrong) or f"' is not among what is allowed (limits.{rule.limit}: ' + {listed} + ')'"
    return {
        "expression": f"variables.wrong{number}.size() == 0",
        "messageExpression": f"'{rule.field}' + variables.wrong{number}[0] + {wrong} + ', as class ' +"
        " params.metadata.name + ' says: change it, or use another class.'",
        "message": f"{rule.field.strip()} is beyond limits.{rule.limit} of the class: change it, or use another class.",
        "reason": "Forbidden",
    }


def _for_namespace() -> Manifest:
    holds = {
        "In": "e.key in variables.labels && variables.labels[e.key] in e.values",
        "NotIn": "!(e.key in variables.labels && variables.labels[e.key] in e.values)",
        "Exists": "e.key in variables.labels",
        "DoesNotExist": "!(e.key in variables.labels)",
    }
    *others, last = (f"(e.operator == '{operator}' ? {cel} : " for operator, cel in holds.items())
    every = "".join((*others, last)) + "false" + ")" * len(holds)
    return {
        "expression": "variables.kept || !has(params.spec.namespaces) ||"
        " (params.spec.namespaces.?matchLabels.orValue({}).all(k, k in variables.labels &&"
        " variables.labels[k] == params.spec.namespaces.matchLabels[k]) &&"
        f" params.spec.namespaces.?matchExpressions.orValue([]).all(e, {every}))",
        "messageExpression": "(has(object.spec.className) ? 'spec.className ' : 'spec.className is left out, and the"
        " default class ') + params.metadata.name + ' is not for namespace ' + object.metadata.namespace + ': its"
        " spec.namespaces does not select it. Name a class that does.'",
        "message": "The class is not for this namespace: name one whose spec.namespaces selects it.",
        "reason": "Forbidden",
    }


def _of_scale() -> Manifest:
    """A Scale says neither its class nor its labels. Its GaudiInference does, whose status bears what is allowed."""
    return {
        "matchConditions": [
            {"name": "of-this-resource", "expression": "params.metadata.name == object.metadata.name"},
            {"name": "limited", "expression": "params.?status.?mostReplicas.hasValue()"},
            {
                "name": "scaled-up",
                "expression": "object.?spec.?replicas.orValue(0) > oldObject.?spec.?replicas.orValue(0)",
            },
        ],
        "validations": [
            {
                "expression": "object.spec.replicas <= params.status.mostReplicas",
                "messageExpression": "'replicas ' + string(object.spec.replicas) + ' is above ' +"
                " string(params.status.mostReplicas) + ', the most that the class of ' + params.metadata.name +"
                " ' allows (status.mostReplicas): ask for fewer, or use another class.'",
                "message": "replicas is above status.mostReplicas: ask for fewer, or use another class.",
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


def _binding(name: str, namespaces: str | list[str]) -> Manifest:
    where = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces}
    matched = {"matchResources": {"namespaceSelector": {"matchExpressions": [where]}}} if namespaces else {}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {
            "policyName": name,
            "validationActions": ["Deny"],
            # Without any class nothing is limited; what names a class that is not there gets no pods of the operator.
            "paramRef": {"selector": {}, "parameterNotFoundAction": "Allow"},
            **matched,
        },
    }
