"""The limits of a GaudiInferenceClass at the door: ValidatingAdmissionPolicies for the API server.

See docs/how-to/classes.md.

Each limit that can be told from a spec is one row of RULES; all others, and what only the rendered pod shows, are the
operator's alone (core/admission/class_limits.py), which judges again whatever passes here. So nothing is refused here
that the operator would let run.

Every class is a parameter, and match conditions pick the one that counts for a resource. An update is judged by what it
changes: a class that was made tighter refuses no edit of something else.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gaudi_operator.api.v1alpha1 import inference_class, resource
from gaudi_operator.api.v1alpha1.resource import API_VERSION, GROUP
from gaudi_runtime.contract.ports import API_KEY_VARIABLE

Manifest = dict[str, Any]

NAME, CONTROLLER, NAMESPACES = "NAME-OF-THE-CHART", "CONTROLLER-OF-THE-CHART", "NAMESPACES-OF-THE-CHART"
"""Stand in the manifests for what the chart's values say."""

_SPEC = "SPEC"
"""Stands in an expression for the spec, new or old."""

_LIMIT = "LIMIT"
"""Stands in an expression for the value of the class."""

_SIDES = (
    f"{_SPEC}.?pod.?sidecars.orValue([])",
    f"{_SPEC}.?pod.?initContainers.orValue([])",
)
_ADAPTERS = f"{_SPEC}.?model.?adapters.orValue([])"


def _listed(*paths: str) -> str:
    """A list of the text at `paths` below the spec, without what is left out."""
    return " + ".join(f"({_SPEC}.?{path.replace('.', '.?')}.hasValue() ? [{_SPEC}.{path}] : [])" for path in paths)


def _of_sides(what: str) -> str:
    return " + ".join(f"{each}.{what}" for each in _SIDES)


@dataclass(frozen=True)
class Rule:
    """One limit.

    `asked` is a list of texts of SPEC that are to be judged, `allowed` says of one, x, whether it may be; both are CEL,
    in which LIMIT is the value of the class. `on` says when the limit counts at all: where the class has it, when
    empty. `field` and `wrong` make the sentence, around the text that is not allowed.
    """

    limit: str
    field: str
    asked: str
    allowed: str = "x in LIMIT"
    on: str = ""
    wrong: str = ""

    @property
    def counts(self) -> str:
        """CEL of when it counts."""
        return self.of_class(self.on or "has(LIMIT)")

    def of_class(self, expression: str) -> str:
        """CEL of this limit for the class that is judged by."""
        return expression.replace(_LIMIT, f"params.spec.limits.{self.limit}")


_REST = "x.substring(p.size(), p.size() + 1)"
_ODD = "matches('/[.]?/|/[.]$')"
"""A path that is spelled in an odd way is left to the operator, which knows what it means."""
_CARDS = (
    f"({_SPEC}.?accelerator.?generation.orValue('none') == 'none' ? 0 : {_SPEC}.?parallelism.?tensor.orValue(1)"
    f" * {_SPEC}.?parallelism.?pipeline.orValue(1) * {_SPEC}.?parallelism.?data.orValue(1))"
)


def _names(limit: str, field: str) -> Rule:
    return Rule(limit, f"spec.pod.{field} ", _listed(f"pod.{field}"))


def _counts(path: str) -> Iterator[Rule]:
    asked = f"({_SPEC}.?{path.replace('.', '.?')}.hasValue() ? [{_SPEC}.{path}%s] : [])"
    yield Rule(
        "maxReplicas",
        f"spec.{path} ",
        f"{asked % ''}.map(n, string(n))",
        "int(x) <= LIMIT",
        wrong="' is above ' + string(LIMIT) + ' (limits.maxReplicas)'",
    )
    yield Rule(
        "maxCards",
        f"spec.{path} asks for ",
        f"{asked % f' * {_CARDS}'}.map(n, string(n))",
        "int(x) <= LIMIT",
        wrong="' cards, above ' + string(LIMIT) + ' (limits.maxCards)'",
    )


_SOURCES = ", ".join(f"'{kind[0].lower()}{kind[1:]}'" for kind in inference_class.SourceKind)
RULES = (
    Rule(
        "images",
        "spec: image ",
        f"{_listed('engine.image', 'model.source.ociImage.reference', 'recipeCache.ociImage.reference')}"
        f" + {_of_sides('map(c, c.image)')}"
        f" + {_ADAPTERS}.filter(a, has(a.source.ociImage)).map(a, a.source.ociImage.reference)",
        f"LIMIT.exists(p, x.startsWith(p) && (x == p || p.matches('[/:@]$') || {_REST}.matches('[/:@]')))",
    ),
    Rule(
        "hostPaths",
        "spec.model.source.hostPath ",
        f"{_listed('model.source.hostPath.path')}"
        f" + {_ADAPTERS}.filter(a, has(a.source.hostPath)).map(a, a.source.hostPath.path)",
        f"x.{_ODD} || LIMIT.exists(p, p.{_ODD} || (x + '/').startsWith(p.endsWith('/') ? p : p + '/'))",
    ),
    _names("priorityClasses", "priorityClassName"),
    _names("runtimeClasses", "runtimeClassName"),
    Rule(
        "serviceAccounts",
        "spec.pod.serviceAccountName ",
        _listed("pod.serviceAccountName"),
        # That one is made by the operator, without rights.
        "x == object.metadata.name || x in LIMIT",
    ),
    Rule(
        "nodeSelector",
        "spec.pod.nodeSelector ",
        f"LIMIT.filter(k, ({_SPEC}.?pod.?nodeSelector.orValue({{}}).size() > 0 ? {_SPEC}.pod.nodeSelector :"
        " params.spec.?defaults.?nodeSelector.orValue({}))[?k].orValue('') != LIMIT[k])",
        "false",
        wrong="' must be as the class says (limits.nodeSelector)'",
    ),
    Rule(
        "tolerations",
        "spec.pod.tolerations ",
        f"{_SPEC}.?pod.?tolerations.orValue([]).map(t, t.?key.orValue('without a key'))",
    ),
    Rule(
        "environmentVariables",
        "variable ",
        f"{_SPEC}.?engine.?env.orValue([]).map(e, e.name) + "
        + " + ".join(
            # At most four each, and one list of names: CEL of Kubernetes 1.31 cannot flatten lists.
            f"({each}.size() > {number} ? {each}[{number}].?env.orValue([]).map(e, e.name) : [])"
            for each in _SIDES
            for number in range(4)
        ),
        "LIMIT.exists(p, p.endsWith('*') ? x.startsWith(p.substring(0, p.size() - 1)) : x == p)",
    ),
    Rule(
        "annotationPrefixes",
        "spec.pod.annotations ",
        f"{_SPEC}.?pod.?annotations.orValue({{}}).map(k, k).filter(k, !k.startsWith('{GROUP}/'))",
        "LIMIT.exists(p, x.startsWith(p))",
    ),
    Rule(
        "extraArguments",
        "spec.engine.extraArgs ",
        f"{_SPEC}.?engine.?extraArgs.orValue([]).filter(a, a.startsWith('--')).map(a, a.split('=')[0])",
    ),
    Rule(
        "trustRemoteCode",
        "spec.engine.settings --trust-remote-code ",
        f"{_SPEC}.?engine.?settings.orValue({{}}).filter(k, k == '--trust-remote-code')"
        f".map(k, string({_SPEC}.engine.settings[k])).filter(v, v.lowerAscii() != 'false')",
        "false",
        on="!LIMIT",
        wrong="' is not allowed (limits.trustRemoteCode)'",
    ),
    *_counts("replicas"),
    *_counts("autoscaling.maxReplicas"),
    Rule(
        "modelSources",
        "spec.model: source ",
        f"[{_SOURCES}].filter(k, k in {_SPEC}.?model.?source.orValue({{}}) || {_ADAPTERS}.exists(a, k in a.source))",
        "x.substring(0, 1).upperAscii() + x.substring(1) in LIMIT",
    ),
    Rule(
        "apiKeyRequired",
        "spec.engine.apiKeySecretRef",
        f"({_SPEC}.?engine.?apiKeySecretRef.hasValue() ||"
        f" {_SPEC}.?engine.?env.orValue([]).exists(e, e.name == '{API_KEY_VARIABLE}')) ? [] : ['']",
        "false",
        on="LIMIT",
        wrong="' is needed (limits.apiKeyRequired)'",
    ),
)


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
        "expression": f"variables.kept ? ({rule.of_class(rule.asked).replace(_SPEC, 'oldObject.spec')}) : []",
    }
    asked = rule.of_class(rule.asked).replace(_SPEC, "object.spec")
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
