"""The limits of a GaudiInferenceClass, checked against rendered pod templates and the inputs of revisions.

Each rule yields (field of the spec, fault). pod_policy.py turns each tuple into a sentence that names the class.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import Field, ValidationError

from gaudi_operator.api.v1alpha1.inference_class import ClassLimits, SourceKind
from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.core.admission.pod_view import PodView, is_below
from gaudi_operator.core.names import CONTAINER
from gaudi_operator.core.rendering.container import OWN_VARIABLES
from gaudi_operator.core.rollout.revision import Revision
from gaudi_runtime.contract.base import Tolerant
from gaudi_runtime.contract.ports import API_KEY_VARIABLE
from gaudi_runtime.knobs.table import knobs

Finding = tuple[str, str]


def revision_beyond_limits(
    spec: GaudiInferenceSpec | None, revision: Revision, views: Sequence[PodView], limits: ClassLimits, account: str
) -> Iterator[Finding]:
    """Yield each field of a revision that exceeds the limits, and each count of `spec` that exceeds them.

    `account` is the service account that the operator creates for the resource.
    """
    if spec:
        yield from beyond_counts(spec, revision, views, limits)
    for view in views:
        yield from beyond_limits(view, revision.inputs, limits, account)
    yield from beyond_of_the_engine(revision, views, limits)


def beyond_limits(view: PodView, inputs: Mapping[str, Any], limits: ClassLimits, account: str) -> Iterator[Finding]:
    """Yield the fields of a revision's pod template that exceed the limits of its class.

    `inputs` are the inputs of the revision. `account` is the service account that the operator creates for the
    resource.
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
            yield f"spec.pod.nodeSelector {label}", f'must have the value "{value}" (limits.nodeSelector)'
    for toleration in spec.tolerations:
        if limits.tolerations is not None and toleration.key not in limits.tolerations:
            yield f"spec.pod.tolerations {toleration.key}", _listed("tolerations", limits.tolerations)
    for annotation in view.annotations:
        if limits.annotation_prefixes is not None and not annotation.startswith(limits.annotation_prefixes):
            yield f"spec.pod.annotations {annotation}", _listed("annotationPrefixes", limits.annotation_prefixes)
    if limits.environment_variables is not None:
        for where, name in _variables_of_users(view, inputs):
            if not any(is_named(name, each) for each in limits.environment_variables):
                yield f"{where} {name}", _listed("environmentVariables", limits.environment_variables)
    if limits.api_key_required and not _has_key(view):
        yield "spec.server.apiKeySecretRef", "must be set (limits.apiKeyRequired)"


def _listed(limit: str, allowed: Iterable[str]) -> str:
    return f"is not an allowed value (limits.{limit}: {', '.join(allowed) or 'none'})"


def starts_with(image: str, prefix: str) -> bool:
    """Return True if an image name begins with `prefix`, and the prefix ends between two parts of the name."""
    rest = image.removeprefix(prefix)
    return image.startswith(prefix) and (not rest or prefix[-1] in "/:@" or rest[0] in "/:@")


def is_named(variable: str, pattern: str) -> bool:
    """Return True if a variable's name equals `pattern`. A `*` at the end of the pattern matches any rest."""
    return variable.startswith(pattern[:-1]) if pattern.endswith("*") else variable == pattern


def _variables_of_users(view: PodView, inputs: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield (field of the spec, name) of each variable that a user sets, even if it also has an operator default."""
    engine = _section(inputs, "engine")
    theirs = {each.get("name") for each in _items(engine, "env") if isinstance(each, dict)}
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


def beyond_of_the_engine(revision: Revision, views: Iterable[PodView], limits: ClassLimits) -> Iterator[Finding]:
    """Yield the engine settings of a revision that exceed the limits of its class.

    A stored revision may have forged inputs. Therefore the configuration and the mounts of its pods are checked, too.
    """
    try:
        config = _Config.model_validate_json(revision.config) if revision.config else _Config()
    except ValidationError:
        yield "the configuration of the stored revision", "cannot be read"
        return
    engine = _section(revision.inputs, "engine")
    for argument in (*_items(engine, "extraArgs"), *config.engine.extra_args):
        name = str(argument).partition("=")[0]
        if limits.extra_arguments is not None and name.startswith("--") and name not in limits.extra_arguments:
            yield f"spec.engine.extraArgs {name}", _listed("extraArguments", limits.extra_arguments)
    for settings in (_section(engine, "settings"), config.engine.settings):
        trusted = settings.get("--trust-remote-code")
        if not limits.trust_remote_code and trusted is not None and str(trusted).lower() != "false":
            yield "spec.engine.settings --trust-remote-code", "is not allowed (limits.trustRemoteCode)"
    for stall in (_section(revision.inputs, "warmup").get("stallTimeoutSeconds"), config.serving.stall_timeout_seconds):
        most = limits.max_stall_timeout_seconds
        if most is not None and isinstance(stall, int) and stall > most:
            yield (
                f"spec.warmup.stallTimeoutSeconds {stall}",
                f"is above {most} (limits.maxStallTimeoutSeconds)",
            )
    mounted = (each for view in views for each in view.sources)
    for where, kind in (*_sources(_section(revision.inputs, "model")), *mounted, *config.model.fetched):
        if limits.model_sources is not None and _SOURCES.get(kind) not in limits.model_sources:
            yield f"spec.model.{where}.{kind}", _listed("modelSources", limits.model_sources)


def _sources(model: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield (field below spec.model, kind of source) of the model and its adapters, from the inputs of a revision."""
    for where, holder in (("source", model), *(("adapters.source", each) for each in _items(model, "adapters"))):
        yield from ((where, kind) for kind in _section(holder, "source"))


class _Engine(Tolerant):
    settings: dict[str, Any] = Field({})
    extra_args: tuple[Any, ...] = ()


class _Fetched(Tolerant):
    hub: dict[str, Any] | None = None


class _Model(_Fetched):
    adapters: tuple[_Fetched, ...] = ()

    @property
    def fetched(self) -> Iterator[Finding]:
        """Yield (field below spec.model, kind of source) of each model that the runtime fetches."""
        if self.hub is not None:
            yield "source", "huggingFace"
        yield from (("adapters.source", "huggingFace") for each in self.adapters if each.hub is not None)


class _Serving(Tolerant):
    stall_timeout_seconds: int | None = None


class _Config(Tolerant):
    """The parts of a RuntimeConfig that a class limits."""

    engine: _Engine = _Engine()
    model: _Model = _Model()
    serving: _Serving = _Serving()


def _section(holder: object, name: str) -> Mapping[str, Any]:
    found = holder.get(name) if isinstance(holder, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _items(holder: Mapping[str, Any], name: str) -> list[Any]:
    found = holder.get(name)
    return found if isinstance(found, list) else []


def _cards(revision: Revision, views: Sequence[PodView]) -> int:
    """Return the number of cards that the pods of one replica request."""
    if revision.group is None:
        return views[0].cards
    leader, worker = views
    return leader.cards + max(0, revision.group.size - 1) * worker.cards


def beyond_counts(
    spec: GaudiInferenceSpec, revision: Revision, views: Sequence[PodView], limits: ClassLimits
) -> Iterator[Finding]:
    """Yield the counts of a revision that exceed the limits of its class: replicas, autoscaler and claim templates."""
    cards = _cards(revision, views)
    for template in (each for view in views for each in view.claim_templates):
        if limits.max_cards is not None:
            yield (
                f"spec.accelerator.resourceClaimTemplateName {template}",
                "may request any number of cards, which limits.maxCards forbids",
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
                f"needs {replicas * cards} cards, but the maximum is {limits.max_cards} (limits.maxCards)",
            )


def most_replicas(revision: Revision, limits: ClassLimits) -> int | None:
    """Return the maximum number of replicas that the limits of the class allow, or None if there is no limit."""
    if limits.max_cards is None:
        return limits.max_replicas
    try:
        cards = _cards(revision, [PodView.model_validate(each) for each in revision.templates])
    except ValidationError:
        return 0  # pod_policy.py refuses its template
    by_cards = limits.max_cards // cards if cards else None
    return min((each for each in (limits.max_replicas, by_cards) if each is not None), default=None)
