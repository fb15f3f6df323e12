"""The limits of a GaudiInferenceClass that can be checked from a spec, each as one row of RULES, in CEL.

class_policies.py writes them as a ValidatingAdmissionPolicy. The operator checks the same limits in the rendered pod
(core/admission/revision_limits.py) and in the spec (core/admission/spec_limits.py).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from gaudi_operator.api.v1alpha1 import inference_class
from gaudi_operator.api.v1alpha1.network import SHORTEST_PREFIX
from gaudi_operator.api.v1alpha1.resource import GROUP

TRUST_REMOTE_CODE = "--trust-remote-code"
FILES_OF_CODE = (
    "--tool-parser-plugin",
    "--reasoning-parser-plugin",
    "GC_KERNEL_PATH",
    "HABANA_PLUGINS_LIB_PATH",
    "HABANA_SCAL_BIN_PATH",
)
"""Settings of the engine that name files of code, which a volume of the pod may contain."""

SPEC = "SPEC"
"""Placeholder in an expression for the new or the old spec."""

_LIMIT = "LIMIT"
"""Placeholder in an expression for the value of the class."""

_SIDES = (
    f"{SPEC}.?pod.?sidecars.orValue([])",
    f"{SPEC}.?pod.?initContainers.orValue([])",
)
_ADAPTERS = f"{SPEC}.?model.?lora.?adapters.orValue([])"


def cel_list_of_fields(*paths: str) -> str:
    """Return a CEL expression for the list of the texts at `paths` in the spec. Unset fields have no entry."""
    return " + ".join(f"({SPEC}.?{path.replace('.', '.?')}.hasValue() ? [{SPEC}.{path}] : [])" for path in paths)


def container_env_expressions(call: str) -> Iterator[str]:
    """Yield CEL expressions, one per container, that call `call` on the container's list of variables."""
    yield f"{SPEC}.?engine.?env.orValue([]).{call}"
    # Read at most four containers of each list, because CEL in Kubernetes 1.31 cannot flatten a list of lists.
    for containers in _SIDES:
        yield from (f"({containers}.size() > {n} ? {containers}[{n}].?env.orValue([]).{call} : [])" for n in range(4))


def _side_container_expression(call: str) -> str:
    return " + ".join(f"{containers}.{call}" for containers in _SIDES)


@dataclass(frozen=True)
class LimitRule:
    """One rule for a limit of a class.

    `values` is CEL of the list of texts of SPEC to check, `allowed` is CEL that is true for an allowed text x. LIMIT is
    the value of the class. `condition` is CEL that is true if the limit applies; if it is empty, the limit applies when
    the class sets it. The message consists of `field`, the text that is not allowed, and `problem`. `gives_permission`
    is True if the limit gives permission and is therefore enforced in a trial.
    """

    limit: str
    field: str
    values: str
    allowed: str = "x in LIMIT"
    condition: str = ""
    problem: str = ""
    gives_permission: bool = False

    @property
    def applies_expression(self) -> str:
        """The CEL expression that is true if the limit applies."""
        return self.substitute_limit(self.condition or "has(LIMIT)")

    def substitute_limit(self, expression: str) -> str:
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


def _name_rule(limit: str, field: str) -> LimitRule:
    return LimitRule(limit, f"spec.pod.{field} ", cel_list_of_fields(f"pod.{field}"))


def _count_rules(path: str) -> Iterator[LimitRule]:
    values_template = f"({SPEC}.?{path.replace('.', '.?')}.hasValue() ? [{SPEC}.{path}%s] : [])"
    yield LimitRule(
        "maxReplicas",
        f"spec.{path} ",
        f"{values_template % ''}.map(n, string(n))",
        "int(x) <= LIMIT",
        problem="' is above ' + string(LIMIT) + ' (limits.maxReplicas)'",
    )
    yield LimitRule(
        "maxCards",
        f"spec.{path} needs ",
        f"{values_template % f' * {_CARDS}'}.map(n, string(n))",
        "int(x) <= LIMIT",
        problem="' cards, but the maximum is ' + string(LIMIT) + ' (limits.maxCards)'",
    )


_SOURCES = ", ".join(f"'{kind[0].lower()}{kind[1:]}'" for kind in inference_class.SourceKind)
RULES = (
    LimitRule(
        "images",
        "spec: image ",
        f"{cel_list_of_fields('server.image', 'model.source.ociImage.reference', 'recipeCache.ociImage.reference')}"
        f" + {_side_container_expression('map(c, c.image)')}"
        f" + {_ADAPTERS}.filter(a, has(a.source.ociImage)).map(a, a.source.ociImage.reference)",
        f"LIMIT.exists(p, x.startsWith(p) && (x == p || p.matches('[/:@]$') || {_REST}.matches('[/:@]')))",
    ),
    LimitRule(
        "hostPaths",
        "spec.model.source.hostPath ",
        f"{cel_list_of_fields('model.source.hostPath.path')}"
        f" + {_ADAPTERS}.filter(a, has(a.source.hostPath)).map(a, a.source.hostPath.path)",
        f"x.{_ODD} || LIMIT.exists(p, p.{_ODD} || (x + '/').startsWith(p.endsWith('/') ? p : p + '/'))",
    ),
    _name_rule("priorityClasses", "priorityClassName"),
    _name_rule("runtimeClasses", "runtimeClassName"),
    LimitRule(
        "serviceAccounts",
        "spec.pod.serviceAccountName ",
        cel_list_of_fields("pod.serviceAccountName"),
        # The operator creates the service account with the resource's name. The account has no permissions.
        "x == object.metadata.name || x in LIMIT",
    ),
    LimitRule(
        "nodeSelector",
        "spec.pod.nodeSelector ",
        f"LIMIT.filter(k, ({SPEC}.?pod.?nodeSelector.orValue({{}}).size() > 0 ? {SPEC}.pod.nodeSelector :"
        " params.spec.?defaults.?nodeSelector.orValue({}))[?k].orValue('') != LIMIT[k])",
        "false",
        problem="' must have the value of the class (limits.nodeSelector)'",
    ),
    LimitRule(
        "tolerations",
        "spec.pod.tolerations ",
        f"{SPEC}.?pod.?tolerations.orValue([]).map(t, t.?key.orValue('without a key'))",
    ),
    LimitRule(
        "environmentVariables",
        "variable ",
        " + ".join(container_env_expressions("map(e, e.name)")),
        "LIMIT.exists(p, p.endsWith('*') ? x.startsWith(p.substring(0, p.size() - 1)) : x == p)",
    ),
    LimitRule(
        "annotationPrefixes",
        "spec.pod.annotations ",
        f"{SPEC}.?pod.?annotations.orValue({{}}).map(k, k).filter(k, !k.startsWith('{GROUP}/'))",
        "LIMIT.exists(p, x.startsWith(p))",
    ),
    LimitRule(
        "extraArguments",
        "spec.engine.extraArgs ",
        f"{SPEC}.?engine.?extraArgs.orValue([]).filter(a, a.startsWith('--')).map(a, a.split('=')[0])",
    ),
    LimitRule(
        "trustRemoteCode",
        "spec.engine.settings ",
        f"{SPEC}.?engine.?settings.orValue({{}}).filter(k, k in [{', '.join(map(repr, FILES_OF_CODE))}] ||"
        f" k == '{TRUST_REMOTE_CODE}' && string({SPEC}.engine.settings[k]).lowerAscii() != 'false')",
        "false",
        condition="!LIMIT",
        problem="' is not allowed (limits.trustRemoteCode)'",
    ),
    *_count_rules("replicas"),
    *_count_rules("autoscaling.maxReplicas"),
    LimitRule(
        "maxCards",
        "spec.accelerator.resourceClaimTemplateName ",
        cel_list_of_fields("accelerator.resourceClaimTemplateName"),
        # Refuse every template: a policy cannot read the ResourceClaimTemplate, and the template may request any number
        # of devices.
        "false",
        problem="' may request any number of cards, which limits.maxCards forbids'",
    ),
    LimitRule(
        "modelSources",
        "spec.model: source ",
        f"[{_SOURCES}].filter(k, k in {SPEC}.?model.?source.orValue({{}}) || {_ADAPTERS}.exists(a, k in a.source))",
        "x.substring(0, 1).upperAscii() + x.substring(1) in LIMIT",
    ),
    LimitRule(
        "apiKeyRequired",
        "spec.server.apiKeySecretRef",
        f"{SPEC}.?server.?apiKeySecretRef.hasValue() ? [] : ['']",
        "false",
        condition="LIMIT",
        problem="' must be set (limits.apiKeyRequired)'",
    ),
    LimitRule(
        "allowAllClients",
        "spec.networkAccess.",
        f"{cel_list_of_fields('networkAccess.from')}.filter(f, f in ['Everyone', 'Unmanaged']).map(f, 'from ' + f)"
        f" + ({SPEC}.?networkAccess.?clients.orValue([]).exists(c, {_IS_EVERYONE}) ? ['clients'] : [])",
        "false",
        condition="!LIMIT",
        problem="' lets every namespace reach the model port (limits.allowAllClients)'",
        gives_permission=True,
    ),
    LimitRule(
        "serviceTypes",
        "spec.service.type ",
        f"{cel_list_of_fields('service.type')}.filter(t, t != 'ClusterIP')",
    ),
    LimitRule(
        "serviceAnnotationPrefixes",
        "spec.service.annotations ",
        f"{SPEC}.?service.?annotations.orValue({{}}).map(k, k)",
        "LIMIT.exists(p, x.startsWith(p))",
    ),
    LimitRule(
        "maxRecipeCacheSize",
        "spec.recipeCache.size ",
        f"{SPEC}.?recipeCache.hasValue() && !{SPEC}.?recipeCache.?existingClaim.hasValue() ?"
        f" [{SPEC}.?recipeCache.?size.orValue('20Gi')].map(s, string(s)) : []",
        "quantity(x).compareTo(quantity(string(LIMIT))) <= 0",
        problem="' is above ' + string(LIMIT) + ' (limits.maxRecipeCacheSize)'",
    ),
    LimitRule(
        "maxSurge",
        "spec.rollout.maxSurge ",
        f"[{SPEC}.?rollout.?maxSurge.orValue(1)].map(s, string(s)).map(s, !s.endsWith('%') ? int(s) :"
        f" (int(s.substring(0, s.size() - 1)) * {_REPLICAS} + 99) / 100).map(n, string(n))",
        "int(x) <= LIMIT",
        problem="' is above ' + string(LIMIT) + ' (limits.maxSurge)'",
    ),
    LimitRule(
        "maxStallTimeoutSeconds",
        "spec.warmup.stallTimeoutSeconds ",
        f"{cel_list_of_fields('warmup.stallTimeoutSeconds')}.map(n, string(n))",
        "int(x) <= LIMIT",
        problem="' is above ' + string(LIMIT) + ' (limits.maxStallTimeoutSeconds)'",
    ),
)
