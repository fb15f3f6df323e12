"""ValidatingAdmissionPolicies for the limits of a GaudiInferenceClass (docs/how-to/classes.md).

Each limit that can be checked from a spec is one row of RULES (class_rules.py). The operator checks these limits again,
together with those of the rendered pod (core/admission/revision_limits.py, spec_limits.py). The policies reject nothing
that the operator would allow.

All classes are parameters of the policies, and match conditions select the class of a resource. The first policy
rejects what an update adds beyond the limits, so that a class that became stricter does not block unrelated edits. The
second policy warns about the rest, because the operator checks the whole spec before it runs the edited one. In a trial
(`spec.trial`) the first policy rejects only what needs permission, and the second one warns on every write.

The second policy also warns about settings that need permission (permission_rules.py) and do not have that of the
class. Policies cannot find out whether there is a default class, so a third policy without parameters warns about such
settings of resources that name no class.
"""

from collections.abc import Mapping
from typing import Any

from gaudi_operator.api.class_rules import RULES, SPEC, LimitRule
from gaudi_operator.api.permission_rules import PERMISSIONS
from gaudi_operator.api.v1alpha1 import inference_class, resource
from gaudi_operator.api.v1alpha1.resource import API_VERSION, GROUP

Manifest = dict[str, Any]

NAME, CONTROLLER, NAMESPACES = "NAME-OF-THE-CHART", "CONTROLLER-OF-THE-CHART", "NAMESPACES-OF-THE-CHART"
"""Placeholders in the manifests for values of the chart."""


def admission_policies(
    name: str = NAME, controller: str = CONTROLLER, namespaces: str | list[str] = NAMESPACES
) -> list[Manifest]:
    """Return the admission policies of classes with their bindings, for resources in `namespaces`; empty means all."""
    return [
        _policy(f"{name}-classes", inference_class.KIND, resource.PLURAL, _class_limits(controller)),
        _binding(f"{name}-classes", namespaces),
        _policy(f"{name}-class-warnings", inference_class.KIND, resource.PLURAL, _class_warnings(controller)),
        _binding(f"{name}-class-warnings", namespaces, action="Warn"),
        _policy(f"{name}-permission-warnings", None, resource.PLURAL, _permission_warnings()),
        _binding(f"{name}-permission-warnings", namespaces, action="Warn", has_parameters=False),
        _policy(f"{name}-scale", resource.KIND, f"{resource.PLURAL}/scale", _scale_limit()),
        _binding(f"{name}-scale", namespaces),
    ]


def _class_limits(controller: str) -> Manifest:
    """Return the policy that rejects values beyond the limits, unless the old spec has them and the same class."""
    return {
        "matchConditions": [
            *_class_match_conditions(controller),
            {
                "name": "spec-changed",
                "expression": _SPEC_CHANGED,
            },
        ],
        "variables": [
            *_VARIABLES,
            *(
                variable
                for index, rule in enumerate(RULES)
                for variable in (
                    _old_values_variable(index, rule),
                    _wrong_values_variable(index, rule, f"!(x in variables.had{index})", refuses=True),
                )
            ),
        ],
        "validations": [
            {
                **_namespace_validation(f"variables.kept || {_cel_selects_namespace()}", _CHANGE_CLASS),
                "reason": "Forbidden",
            },
            *({**_limit_validation(index, rule, _CHANGE), "reason": "Forbidden"} for index, rule in enumerate(RULES)),
        ],
    }


def _class_warnings(controller: str) -> Manifest:
    """Return the policy that warns about values beyond the limits that an update keeps or that a trial accepts."""
    return {
        "matchConditions": [
            *_class_match_conditions(controller),
            {
                "name": "trial-or-spec-changed",
                "expression": f"{_TRIAL} || {_SPEC_CHANGED}",
            },
        ],
        "variables": [
            *_VARIABLES,
            *(
                variable
                for index, rule in enumerate(RULES)
                for variable in (
                    _old_values_variable(index, rule),
                    _wrong_values_variable(index, rule, f"x in variables.had{index}", refuses=False),
                )
            ),
            *(_unpermitted_values_variable(index, rule) for index, rule in enumerate(PERMISSIONS)),
        ],
        "validations": [
            _namespace_validation(f"!variables.kept || {_cel_selects_namespace()}", _NOT_RUN),
            *(
                _limit_validation(index, rule, _NOT_RUN, "" if rule.gives_permission else _REFUSED_LATER)
                for index, rule in enumerate(RULES)
            ),
            *(
                _permission_validation(index, rule, f"', but class ' + params.metadata.name + '{_NOT_ALLOWED}'")
                for index, rule in enumerate(PERMISSIONS)
            ),
        ],
    }


def _permission_warnings() -> Manifest:
    """Return the policy that warns about settings without permission in resources that name no class."""
    rules = (*PERMISSIONS, *(rule for rule in RULES if rule.gives_permission))
    return {
        "matchConditions": [
            {"name": "no-class-name", "expression": "!has(object.spec.className)"},
            {"name": "spec-changed", "expression": _SPEC_CHANGED},
        ],
        "variables": [
            {"name": f"needs{index}", "expression": rule.values.replace(SPEC, "object.spec")}
            for index, rule in enumerate(rules)
        ],
        "validations": [
            _permission_validation(index, rule, f"'{_UNLESS_DEFAULT}'") for index, rule in enumerate(rules)
        ],
    }


_SPEC_CHANGED = "request.operation == 'CREATE' || object.spec != oldObject.spec"
_SAME_CLASS = "object.spec.?className.orValue('') == oldObject.spec.?className.orValue('')"
_TRIAL = "params.spec.?trial.orValue(false)"
_VARIABLES = (
    {"name": "trial", "expression": _TRIAL},
    {"name": "kept", "expression": f"request.operation == 'UPDATE' && {_SAME_CLASS}"},
    {"name": "labels", "expression": "namespaceObject.metadata.?labels.orValue({})"},
)
_CHANGE = ". Change the field, or use another class."
_CHANGE_CLASS = ". Use another class."
_NOT_RUN = (
    ". The class became stricter after this resource was written. Pods keep serving, but the operator does not run the"
    " edited spec. Change the field, or use another class."
)
_REFUSED_LATER = (
    ". The class is in trial: when the trial ends, the class will refuse this spec. Change the field, or use "
    "another class."
)


_NOT_ALLOWED = (
    " does not allow this. The operator does not run such a spec (ForbiddenByClass). Remove the setting, or "
    "use another class."
)
_UNLESS_DEFAULT = (
    ". spec.className is left out, so the operator runs such a spec only if a default class allows it (NeedsClass). "
    "Remove the setting, or use a class that allows it."
)


def _class_match_conditions(controller: str) -> list[Manifest]:
    return [
        {"name": "own-controller", "expression": f"params.spec.controller == '{controller}'"},
        {
            "name": "applicable-class",
            "expression": "has(object.spec.className) ? object.spec.className == params.metadata.name :"
            " params.spec.?default.orValue(false) == true",
        },
    ]


def _old_values_variable(index: int, rule: LimitRule) -> Manifest:
    """Return the CEL variable with the values that the old spec already contains with the same class."""
    values = rule.substitute_limit(rule.values).replace(SPEC, "oldObject.spec")
    return {"name": f"had{index}", "expression": f"variables.kept ? ({values}) : []"}


def _wrong_values_variable(index: int, rule: LimitRule, condition: str, *, refuses: bool) -> Manifest:
    """Return the CEL variable with the values that violate the rule and meet `condition` (CEL, the value is x).

    `refuses` is True for the policy that refuses, and False for the policy that warns. While a class is on trial, the
    policy that refuses finds no values, and the policy that warns finds all values that violate the rule. Rules that
    need a permission are not changed by a trial.
    """
    values = rule.substitute_limit(rule.values).replace(SPEC, "object.spec")
    limit_applies, condition = f"({rule.applies_expression})", f"({condition})"
    if not rule.gives_permission:
        limit_applies = f"{limit_applies} && !variables.trial" if refuses else limit_applies
        condition = condition if refuses else f"(variables.trial || {condition})"
    wrong_values = f"({values}).filter(x, !({rule.substitute_limit(rule.allowed)}) && {condition})"
    return {"name": f"wrong{index}", "expression": f"{limit_applies} ? {wrong_values} : []"}


def _limit_validation(index: int, rule: LimitRule, remedy: str, in_trial: str = "") -> Manifest:
    """Return the validation of a rule. In a trial the message ends with `in_trial`, if given, and not with `remedy`."""
    allowed_values = rule.substitute_limit("(LIMIT.size() > 0 ? LIMIT.join(', ') : 'none')")
    problem = (
        rule.substitute_limit(rule.problem)
        or f"' is not an allowed value (limits.{rule.limit}: ' + {allowed_values} + ')'"
    )
    message_end = f"(variables.trial ? '{in_trial}' : '{remedy}')" if in_trial else f"'{remedy}'"
    return {
        "expression": f"variables.wrong{index}.size() == 0",
        "messageExpression": f"'{rule.field}' + variables.wrong{index}[0] + {problem} + ', a limit of class ' + "
        f"params.metadata.name + {message_end}",
        "message": f"The spec exceeds limits.{rule.limit} of the class{_CHANGE}",
    }


def _unpermitted_values_variable(index: int, rule: LimitRule) -> Manifest:
    """Return the CEL variable with the values that need permission and that the class does not allow."""
    values = rule.values.replace(SPEC, "object.spec")
    return {"name": f"needs{index}", "expression": f"({values}).filter(x, !({rule.substitute_limit(rule.allowed)}))"}


def _permission_validation(index: int, rule: LimitRule, message_end: str) -> Manifest:
    """Return the validation of a setting that needs permission. `message_end` is CEL of the end of the message."""
    return {
        "expression": f"variables.needs{index}.size() == 0",
        "messageExpression": f"'{rule.field}' + variables.needs{index}[0] + {rule.problem} + {message_end}",
        "message": f"{rule.field}needs the permission of a class (limits.{rule.limit}).",
    }


def _cel_selects_namespace() -> str:
    """Return a CEL expression that is true if the class selects the namespace."""
    conditions = {
        "In": "e.key in variables.labels && variables.labels[e.key] in e.values",
        "NotIn": "!(e.key in variables.labels && variables.labels[e.key] in e.values)",
        "Exists": "e.key in variables.labels",
        "DoesNotExist": "!(e.key in variables.labels)",
    }
    *branches, last_branch = (f"(e.operator == '{operator}' ? {cel} : " for operator, cel in conditions.items())
    condition = "".join((*branches, last_branch)) + "false" + ")" * len(conditions)
    return (
        "!has(params.spec.namespaces) || (params.spec.namespaces.?matchLabels.orValue({}).all(k,"
        " k in variables.labels && variables.labels[k] == params.spec.namespaces.matchLabels[k]) &&"
        f" params.spec.namespaces.?matchExpressions.orValue([]).all(e, {condition}))"
    )


def _namespace_validation(expression: str, remedy: str) -> Manifest:
    return {
        "expression": expression,
        "messageExpression": "(has(object.spec.className) ? 'spec.className ' : 'spec.className is left out, and the "
        "default class ') + params.metadata.name + ' is not for namespace ' + "
        "object.metadata.namespace + ', because spec.namespaces of the class does not select "
        f"this namespace{remedy}'",
        "message": (
            "The class is not for this namespace, because spec.namespaces of the class does not select this "
            f"namespace{remedy}"
        ),
    }


def _scale_limit() -> Manifest:
    """Return the policy for the scale subresource.

    A Scale has neither class nor labels. The status of its GaudiInference has the maximum.
    """
    return {
        "matchConditions": [
            {"name": "same-resource", "expression": "params.metadata.name == object.metadata.name"},
            {"name": "has-limit", "expression": "params.?status.?maxReplicas.hasValue()"},
            {
                "name": "scaled-up",
                "expression": "object.?spec.?replicas.orValue(0) > oldObject.?spec.?replicas.orValue(0)",
            },
        ],
        "validations": [
            {
                "expression": "object.spec.replicas <= params.status.maxReplicas",
                "messageExpression": "'replicas ' + string(object.spec.replicas) + ' is above ' + "
                "string(params.status.maxReplicas) + ', the maximum that the class of ' + "
                "params.metadata.name + ' allows (status.maxReplicas). Lower replicas, or use "
                "another class.'",
                "message": "replicas is above status.maxReplicas. Lower replicas, or use another class.",
                "reason": "Forbidden",
            }
        ],
    }


def _policy(name: str, parameter_kind: str | None, target_resource: str, checks: Mapping[str, Any]) -> Manifest:
    operations = ["UPDATE"] if "/" in target_resource else ["CREATE", "UPDATE"]
    rule = {"apiGroups": [GROUP], "apiVersions": ["*"], "operations": operations, "resources": [target_resource]}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            **({"paramKind": {"apiVersion": API_VERSION, "kind": parameter_kind}} if parameter_kind else {}),
            "matchConstraints": {"resourceRules": [rule]},
            **checks,
        },
    }


def _binding(name: str, namespaces: str | list[str], action: str = "Deny", *, has_parameters: bool = True) -> Manifest:
    requirement = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces}
    # "Allow" means that a namespace without a class has no limits. However, the operator creates no pods for a resource
    # whose class is missing.
    parameters = {"paramRef": {"selector": {}, "parameterNotFoundAction": "Allow"}} if has_parameters else {}
    match_resources = (
        {"matchResources": {"namespaceSelector": {"matchExpressions": [requirement]}}} if namespaces else {}
    )
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {
            "policyName": name,
            "validationActions": [action],
            **parameters,
            **match_resources,
        },
    }
