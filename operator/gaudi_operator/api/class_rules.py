"""The limits of a GaudiInferenceClass that can be checked from a spec, each as one row of RULES, in CEL.

class_policies.py writes them as a ValidatingAdmissionPolicy. The operator checks the same limits in the rendered pod
(core/admission/revision_limits.py) and in the spec (core/admission/spec_limits.py).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from gaudi_operator.api.v1alpha1 import inference_class
from gaudi_operator.api.v1alpha1.network import SHORTEST_PREFIX
from gaudi_operator.api.v1alpha1.resource import GROUP
from gaudi_runtime.contract.ports import API_KEY_VARIABLE

SPEC = "SPEC"
"""Placeholder in an expression for the new or the old spec."""

_LIMIT = "LIMIT"
"""Placeholder in an expression for the value of the class."""

_SIDES = (
    f"{SPEC}.?pod.?sidecars.orValue([])",
    f"{SPEC}.?pod.?initContainers.orValue([])",
)
_ADAPTERS = f"{SPEC}.?model.?adapters.orValue([])"


def listed_texts(*paths: str) -> str:
    """Return a CEL expression for the list of the texts at `paths` in the spec. Unset fields have no entry."""
    return " + ".join(f"({SPEC}.?{path.replace('.', '.?')}.hasValue() ? [{SPEC}.{path}] : [])" for path in paths)


def variables_of_users(what: str) -> Iterator[str]:
    """Yield CEL expressions, one per container, that call `what` on the container's list of variables."""
    yield f"{SPEC}.?engine.?env.orValue([]).{what}"
    # Read at most four containers of each list, because CEL in Kubernetes 1.31 cannot flatten a list of lists.
    for each in _SIDES:
        yield from (f"({each}.size() > {n} ? {each}[{n}].?env.orValue([]).{what} : [])" for n in range(4))


def _of_sides(what: str) -> str:
    return " + ".join(f"{each}.{what}" for each in _SIDES)


@dataclass(frozen=True)
class Rule:
    """One rule for a limit of a class.

    `values` is CEL of the list of texts of SPEC to check, `allowed` is CEL that is true for an allowed text x. LIMIT is
    the value of the class. `condition` is CEL that is true if the limit applies; if it is empty, the limit applies when
    the class sets it. The message consists of `field`, the text that is not allowed, and `wrong`. `permission` is True
    if the limit gives permission and is therefore enforced in a trial.
    """

    limit: str
    field: str
    values: str
    allowed: str = "x in LIMIT"
    condition: str = ""
    wrong: str = ""
    permission: bool = False

    @property
    def applies(self) -> str:
        """The CEL expression that is true if the limit applies."""
        return self.of_class(self.condition or "has(LIMIT)")

    def of_class(self, expression: str) -> str:
        """Return the expression with LIMIT replaced by the value of the class."""
        return expression.replace(_LIMIT, f"params.spec.limits.{self.limit}")


_REST = "x.substring(p.size(), p.size() + 1)"
_ODD = "matches('/[.]?/|/[.]$')"
"""A path with dots or double slashes. The operator checks it, because CEL cannot normalize paths."""
_CARDS = (
    f"({SPEC}.?accelerator.?generation.orValue('none') == 'none' ? 0 : {SPEC}.?parallelism.?tensor.orValue(1)"
    f" * {SPEC}.?parallelism.?pipeline.orValue(1) * {SPEC}.?parallelism.?data.orValue(1))"
)
_REPLICAS = (
    f"({SPEC}.?replicas.orValue(1) > {SPEC}.?autoscaling.?maxReplicas.orValue(0) ? {SPEC}.?replicas.orValue(1) :"
    f" {SPEC}.?autoscaling.?maxReplicas.orValue(0))"
)
_IS_EVERYONE = (
    f"has(c.ipBlock) ? int(c.ipBlock.cidr.split('/')[1]) < {SHORTEST_PREFIX} : has(c.namespaceSelector) &&"
    " c.namespaceSelector.?matchLabels.orValue({}).size() == 0 &&"
    " !c.namespaceSelector.?matchExpressions.orValue([]).exists(e, e.operator == 'In')"
)


def _names(limit: str, field: str) -> Rule:
    return Rule(limit, f"spec.pod.{field} ", listed_texts(f"pod.{field}"))


def _counts(path: str) -> Iterator[Rule]:
    values = f"({SPEC}.?{path.replace('.', '.?')}.hasValue() ? [{SPEC}.{path}%s] : [])"
    yield Rule(
        "maxReplicas",
        f"spec.{path} ",
        f"{values % ''}.map(n, string(n))",
        "int(x) <= LIMIT",
        wrong="' is above ' + string(LIMIT) + ' (limits.maxReplicas)'",
    )
    yield Rule(
        "maxCards",
        f"spec.{path} needs ",
        f"{values % f' * {_CARDS}'}.map(n, string(n))",
        "int(x) <= LIMIT",
        wrong="' cards, but the maximum is ' + string(LIMIT) + ' (limits.maxCards)'",
    )


_SOURCES = ", ".join(f"'{kind[0].lower()}{kind[1:]}'" for kind in inference_class.SourceKind)
RULES = (
    Rule(
        "images",
        "spec: image ",
        f"{listed_texts('server.image', 'model.source.ociImage.reference', 'recipeCache.ociImage.reference')}"
        f" + {_of_sides('map(c, c.image)')}"
        f" + {_ADAPTERS}.filter(a, has(a.source.ociImage)).map(a, a.source.ociImage.reference)",
        f"LIMIT.exists(p, x.startsWith(p) && (x == p || p.matches('[/:@]$') || {_REST}.matches('[/:@]')))",
    ),
    Rule(
        "hostPaths",
        "spec.model.source.hostPath ",
        f"{listed_texts('model.source.hostPath.path')}"
        f" + {_ADAPTERS}.filter(a, has(a.source.hostPath)).map(a, a.source.hostPath.path)",
        f"x.{_ODD} || LIMIT.exists(p, p.{_ODD} || (x + '/').startsWith(p.endsWith('/') ? p : p + '/'))",
    ),
    _names("priorityClasses", "priorityClassName"),
    _names("runtimeClasses", "runtimeClassName"),
    Rule(
        "serviceAccounts",
        "spec.pod.serviceAccountName ",
        listed_texts("pod.serviceAccountName"),
        # The operator creates the service account with the resource's name. The account has no permissions.
        "x == object.metadata.name || x in LIMIT",
    ),
    Rule(
        "nodeSelector",
        "spec.pod.nodeSelector ",
        f"LIMIT.filter(k, ({SPEC}.?pod.?nodeSelector.orValue({{}}).size() > 0 ? {SPEC}.pod.nodeSelector :"
        " params.spec.?defaults.?nodeSelector.orValue({}))[?k].orValue('') != LIMIT[k])",
        "false",
        wrong="' must have the value of the class (limits.nodeSelector)'",
    ),
    Rule(
        "tolerations",
        "spec.pod.tolerations ",
        f"{SPEC}.?pod.?tolerations.orValue([]).map(t, t.?key.orValue('without a key'))",
    ),
    Rule(
        "environmentVariables",
        "variable ",
        " + ".join(variables_of_users("map(e, e.name)")),
        "LIMIT.exists(p, p.endsWith('*') ? x.startsWith(p.substring(0, p.size() - 1)) : x == p)",
    ),
    Rule(
        "annotationPrefixes",
        "spec.pod.annotations ",
        f"{SPEC}.?pod.?annotations.orValue({{}}).map(k, k).filter(k, !k.startsWith('{GROUP}/'))",
        "LIMIT.exists(p, x.startsWith(p))",
    ),
    Rule(
        "extraArguments",
        "spec.engine.extraArgs ",
        f"{SPEC}.?engine.?extraArgs.orValue([]).filter(a, a.startsWith('--')).map(a, a.split('=')[0])",
    ),
    Rule(
        "trustRemoteCode",
        "spec.engine.settings --trust-remote-code ",
        f"{SPEC}.?engine.?settings.orValue({{}}).filter(k, k == '--trust-remote-code')"
        f".map(k, string({SPEC}.engine.settings[k])).filter(v, v.lowerAscii() != 'false')",
        "false",
        condition="!LIMIT",
        wrong="' is not allowed (limits.trustRemoteCode)'",
    ),
    *_counts("replicas"),
    *_counts("autoscaling.maxReplicas"),
    Rule(
        "maxCards",
        "spec.accelerator.resourceClaimTemplateName ",
        listed_texts("accelerator.resourceClaimTemplateName"),
        # Refuse every template: a policy cannot read the ResourceClaimTemplate, and the template may request any number
        # of devices.
        "false",
        wrong="' may request any number of cards, which limits.maxCards forbids'",
    ),
    Rule(
        "modelSources",
        "spec.model: source ",
        f"[{_SOURCES}].filter(k, k in {SPEC}.?model.?source.orValue({{}}) || {_ADAPTERS}.exists(a, k in a.source))",
        "x.substring(0, 1).upperAscii() + x.substring(1) in LIMIT",
    ),
    Rule(
        "apiKeyRequired",
        "spec.server.apiKeySecretRef",
        f"({SPEC}.?server.?apiKeySecretRef.hasValue() ||"
        f" {SPEC}.?engine.?env.orValue([]).exists(e, e.name == '{API_KEY_VARIABLE}')) ? [] : ['']",
        "false",
        condition="LIMIT",
        wrong="' must be set (limits.apiKeyRequired)'",
    ),
    Rule(
        "allowAllClients",
        "spec.networkAccess.",
        f"({SPEC}.?networkAccess.?allowAllClients.orValue(false) ? ['allowAllClients true'] : [])"
        f" + ({SPEC}.?networkAccess.?enabled.orValue(true) ? [] : ['enabled false'])"
        f" + ({SPEC}.?networkAccess.?clients.orValue([]).exists(c, {_IS_EVERYONE}) ? ['clients'] : [])",
        "false",
        condition="!LIMIT",
        wrong="' lets every namespace reach the model port (limits.allowAllClients)'",
        permission=True,
    ),
    Rule(
        "serviceTypes",
        "spec.service.type ",
        f"{listed_texts('service.type')}.filter(t, t != 'ClusterIP')",
    ),
    Rule(
        "serviceAnnotationPrefixes",
        "spec.service.annotations ",
        f"{SPEC}.?service.?annotations.orValue({{}}).map(k, k)",
        "LIMIT.exists(p, x.startsWith(p))",
    ),
    Rule(
        "maxRecipeCacheSize",
        "spec.recipeCache.size ",
        f"{SPEC}.?recipeCache.?enabled.orValue(false) && !{SPEC}.?recipeCache.?existingClaim.hasValue() ?"
        f" [{SPEC}.?recipeCache.?size.orValue('20Gi')].map(s, string(s)) : []",
        "quantity(x).compareTo(quantity(string(LIMIT))) <= 0",
        wrong="' is above ' + string(LIMIT) + ' (limits.maxRecipeCacheSize)'",
    ),
    Rule(
        "maxSurge",
        "spec.rollout.maxSurge ",
        f"[{SPEC}.?rollout.?maxSurge.orValue(1)].map(s, string(s)).map(s, !s.endsWith('%') ? int(s) :"
        f" (int(s.substring(0, s.size() - 1)) * {_REPLICAS} + 99) / 100).map(n, string(n))",
        "int(x) <= LIMIT",
        wrong="' is above ' + string(LIMIT) + ' (limits.maxSurge)'",
    ),
    Rule(
        "maxStallTimeoutSeconds",
        "spec.warmup.stallTimeoutSeconds ",
        f"{listed_texts('warmup.stallTimeoutSeconds')}.map(n, string(n))",
        "int(x) <= LIMIT",
        wrong="' is above ' + string(LIMIT) + ' (limits.maxStallTimeoutSeconds)'",
    ),
)
