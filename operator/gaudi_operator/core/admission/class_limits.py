"""The limits of a GaudiInferenceClass, judged over the rendered pod template and over what a revision was made from.

Each rule tells (field of the spec, what is wrong with it); pod_policy.py makes sentences of it that name the class.
"""

from collections.abc import Iterable, Iterator, Mapping
from math import prod
from typing import Any

from gaudi_operator.api.v1alpha1.accelerator import Generation
from gaudi_operator.api.v1alpha1.inference_class import ClassLimits, SourceKind
from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.api.v1alpha1.warmup import Readiness
from gaudi_operator.core.admission.pod_view import PodView, is_below
from gaudi_operator.core.children.manifests.container import OWN_VARIABLES
from gaudi_operator.core.names import CONTAINER
from gaudi_runtime.contract.ports import API_KEY_VARIABLE
from gaudi_runtime.knobs.table import knobs

Finding = tuple[str, str]


def beyond_limits(view: PodView, inputs: Mapping[str, Any], limits: ClassLimits, account: str) -> Iterator[Finding]:
    """What pods of this template are beyond the limits.

    `inputs` are those of their revision, `account` is the service account that the operator makes for the resource.
    """
    spec = view.spec
    for where, image in view.images:
        if limits.images is not None and not any(starts_with(image, each) for each in limits.images):
            yield f"{where} {image}", _listed("images", limits.images)
    for where, path in view.host_paths:
        if limits.host_paths is not None and not any(is_below(path, each) for each in limits.host_paths):
            yield f"{where} {path}", _listed("hostPaths", limits.host_paths)
    names = (
        ("priorityClassName", spec.priority_class_name, "priorityClasses", limits.priority_classes),
        ("runtimeClassName", spec.runtime_class_name, "runtimeClasses", limits.runtime_classes),
        (
            "serviceAccountName",
            "" if spec.service_account_name == account else spec.service_account_name,
            "serviceAccounts",
            limits.service_accounts,
        ),
    )
    for field, name, limit, allowed in names:
        if name and allowed is not None and name not in allowed:
            yield f"spec.pod.{field} {name}", _listed(limit, allowed)
    for label, value in limits.node_selector.items():
        if spec.node_selector.get(label) != value:
            yield f"spec.pod.nodeSelector {label}", f"must be {value} (limits.nodeSelector)"
    for toleration in spec.tolerations:
        if limits.tolerations is not None and toleration.key not in limits.tolerations:
            yield (
                f"spec.pod.tolerations {toleration.key or 'without a key'}",
                _listed("tolerations", limits.tolerations),
            )
    for annotation in view.annotations:
        if limits.annotation_prefixes is not None and not annotation.startswith(limits.annotation_prefixes):
            yield f"spec.pod.annotations {annotation}", _listed("annotationPrefixes", limits.annotation_prefixes)
    if limits.environment_variables is not None:
        for where, name in _variables_of_users(view, inputs):
            if not any(_is_named(name, each) for each in limits.environment_variables):
                yield f"{where} {name}", _listed("environmentVariables", limits.environment_variables)
    if limits.api_key_required and not _has_key(view):
        yield "spec.engine.apiKeySecretRef", "is needed (limits.apiKeyRequired)"
    yield from _beyond_of_the_engine(inputs, limits)


def _listed(limit: str, allowed: Iterable[str]) -> str:
    return f"is not among what is allowed (limits.{limit}: {', '.join(allowed) or 'none'})"


def starts_with(image: str, prefix: str) -> bool:
    """Whether an image's name begins with `prefix`, which ends where a part of the name does."""
    rest = image.removeprefix(prefix)
    return image.startswith(prefix) and (not rest or prefix[-1] in "/:@" or rest[0] in "/:@")


def _is_named(variable: str, pattern: str) -> bool:
    return variable.startswith(pattern[:-1]) if pattern.endswith("*") else variable == pattern


def _variables_of_users(view: PodView, inputs: Mapping[str, Any]) -> Iterator[Finding]:
    """Without what the operator itself writes into the runtime's environment, unless a user gave it another value."""
    engine = _section(inputs, "engine")
    theirs = {each.get("name") for each in engine.get("env") or () if isinstance(each, dict)}
    for where, name in view.variables:
        ours = where == "spec.engine.env" and (name in OWN_VARIABLES or name in knobs())
        if not ours or name in theirs:
            yield where, name


def _has_key(view: PodView) -> bool:
    runtime = [each for each in view.spec.containers if each.name == CONTAINER]
    return any(variable.name == API_KEY_VARIABLE for each in runtime for variable in each.env)


_SOURCES = {
    "huggingFace": SourceKind.HUGGING_FACE,
    "persistentVolumeClaim": SourceKind.CLAIM,
    "hostPath": SourceKind.HOST_PATH,
    "ociImage": SourceKind.OCI_IMAGE,
}


def _beyond_of_the_engine(inputs: Mapping[str, Any], limits: ClassLimits) -> Iterator[Finding]:
    engine, model = _section(inputs, "engine"), _section(inputs, "model")
    for argument in engine.get("extraArgs") or ():
        name = str(argument).partition("=")[0]
        if limits.extra_arguments is not None and name.startswith("--") and name not in limits.extra_arguments:
            yield f"spec.engine.extraArgs {name}", _listed("extraArguments", limits.extra_arguments)
    trusted = _section(engine, "settings").get("--trust-remote-code")
    if not limits.trust_remote_code and trusted is not None and str(trusted).lower() != "false":
        yield "spec.engine.settings --trust-remote-code", "is not allowed (limits.trustRemoteCode)"
    stall = inputs.get("stallTimeoutSeconds", Readiness().stall_timeout_seconds)
    if limits.max_stall_timeout_seconds is not None and stall > limits.max_stall_timeout_seconds:
        yield (
            f"spec.readiness.stallTimeoutSeconds {stall}",
            f"is above {limits.max_stall_timeout_seconds} (limits.maxStallTimeoutSeconds)",
        )
    sources = (("source", model), *(("adapters.source", each) for each in model.get("adapters") or ()))
    for where, holder in sources:
        for kind in _section(holder, "source"):
            if limits.model_sources is not None and _SOURCES.get(kind) not in limits.model_sources:
                yield f"spec.model.{where}.{kind}", _listed("modelSources", limits.model_sources)


def _section(holder: object, name: str) -> Mapping[str, Any]:
    found = holder.get(name) if isinstance(holder, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _cards(inputs: Mapping[str, Any]) -> int:
    """Cards of one replica: every rank has one."""
    if _section(inputs, "accelerator").get("generation") == Generation.NONE:
        return 0
    ranks = _section(inputs, "parallelism")
    return prod(each for name in ("tensor", "pipeline", "data") if isinstance(each := ranks.get(name, 1), int))


def beyond_counts(spec: GaudiInferenceSpec, inputs: Mapping[str, Any], limits: ClassLimits) -> Iterator[Finding]:
    """What a resource asks for in sum: replicas of a revision and their cards, those of its autoscaler too."""
    cards = _cards(inputs)
    template = _section(inputs, "accelerator").get("resourceClaimTemplateName")
    if template and limits.max_cards is not None:
        yield (
            f"spec.accelerator.resourceClaimTemplateName {template}",
            "may ask for any number of cards, which limits.maxCards forbids",
        )
    asked = [("spec.replicas", spec.replicas)]
    if spec.autoscaling:
        asked.append(("spec.autoscaling.maxReplicas", spec.autoscaling.max_replicas))
    for where, replicas in asked:
        if limits.max_replicas is not None and replicas > limits.max_replicas:
            yield f"{where} {replicas}", f"is above {limits.max_replicas} (limits.maxReplicas)"
        if limits.max_cards is not None and replicas * cards > limits.max_cards:
            yield (
                f"{where} {replicas}",
                f"asks for {replicas * cards} cards, above {limits.max_cards} (limits.maxCards)",
            )


def most_replicas(inputs: Mapping[str, Any], limits: ClassLimits) -> int | None:
    """Replicas that a resource of these inputs may have at most; None where nothing limits them."""
    cards = _cards(inputs)
    by_cards = limits.max_cards // cards if cards and limits.max_cards is not None else None
    return min((each for each in (limits.max_replicas, by_cards) if each is not None), default=None)
