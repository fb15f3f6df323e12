"""The limits of a GaudiInferenceClass, checked against rendered pod templates and the inputs of revisions.

Each rule yields (field of the spec, fault). pod_policy.py turns each tuple into a sentence that names the class.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import Field, ValidationError

from gaudi_operator.api.class_rules import FILES_OF_CODE, TRUST_REMOTE_CODE
from gaudi_operator.api.v1alpha1.inference_class import ClassLimits, SourceKind
from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.core.admission.pod_view import PodTemplateView, is_path_inside
from gaudi_operator.core.names import CONTAINER
from gaudi_operator.core.rendering.container import OWN_VARIABLES
from gaudi_operator.core.rollout.revision import Revision
from gaudi_runtime.contract.base import TolerantModel
from gaudi_runtime.contract.ports import API_KEY_VARIABLE
from gaudi_runtime.knobs.table import knobs

Finding = tuple[str, str]


def revision_limit_violations(
    spec: GaudiInferenceSpec | None,
    revision: Revision,
    views: Sequence[PodTemplateView],
    limits: ClassLimits,
    account: str,
) -> Iterator[Finding]:
    """Yield each field of a revision that exceeds the limits, and each count of `spec` that exceeds them.

    `account` is the service account that the operator creates for the resource.
    """
    if spec:
        yield from count_limit_violations(spec, revision, views, limits)
    for view in views:
        yield from template_limit_violations(view, revision.inputs, limits, account)
    yield from engine_limit_violations(revision, views, limits)


def template_limit_violations(
    view: PodTemplateView, inputs: Mapping[str, Any], limits: ClassLimits, account: str
) -> Iterator[Finding]:
    """Yield the fields of a revision's pod template that exceed the limits of its class.

    `inputs` are the inputs of the revision. `account` is the service account that the operator creates for the
    resource.
    """
    spec = view.spec
    for spec_field, image in view.images:
        if limits.images is not None and not any(has_image_prefix(image, prefix) for prefix in limits.images):
            yield f"{spec_field} {image}", _not_allowed_reason("images", limits.images)
    for spec_field, path in view.host_paths:
        if limits.host_paths is not None and not any(is_path_inside(path, prefix) for prefix in limits.host_paths):
            yield f"{spec_field} {path}", _not_allowed_reason("hostPaths", limits.host_paths)
    name_limits = (
        ("priorityClassName", spec.priority_class_name, "priorityClasses", limits.priority_classes),
        ("runtimeClassName", spec.runtime_class_name, "runtimeClasses", limits.runtime_classes),
        (
            "serviceAccountName",
            "" if spec.service_account_name == account else spec.service_account_name,
            "serviceAccounts",
            limits.service_accounts,
        ),
    )
    for field, name, limit_name, allowed_names in name_limits:
        if name and allowed_names is not None and name not in allowed_names:
            yield f"spec.pod.{field} {name}", _not_allowed_reason(limit_name, allowed_names)
    for label, value in limits.node_selector.items():
        if spec.node_selector.get(label) != value:
            yield f"spec.pod.nodeSelector {label}", f'must have the value "{value}" (limits.nodeSelector)'
    for toleration in spec.tolerations:
        if limits.tolerations is not None and toleration.key not in limits.tolerations:
            yield f"spec.pod.tolerations {toleration.key}", _not_allowed_reason("tolerations", limits.tolerations)
    for annotation in view.user_annotations:
        if limits.annotation_prefixes is not None and not annotation.startswith(limits.annotation_prefixes):
            yield (
                f"spec.pod.annotations {annotation}",
                _not_allowed_reason("annotationPrefixes", limits.annotation_prefixes),
            )
    if limits.environment_variables is not None:
        for spec_field, name in _user_variables(view, inputs):
            if not any(matches_name_pattern(name, pattern) for pattern in limits.environment_variables):
                yield f"{spec_field} {name}", _not_allowed_reason("environmentVariables", limits.environment_variables)
    if limits.api_key_required and not _has_api_key(view):
        yield "spec.server.apiKeySecretRef", "must be set (limits.apiKeyRequired)"


def _not_allowed_reason(limit_name: str, allowed_values: Iterable[str]) -> str:
    return f"is not an allowed value (limits.{limit_name}: {', '.join(allowed_values) or 'none'})"


def has_image_prefix(image: str, prefix: str) -> bool:
    """Return True if an image name begins with `prefix`, and the prefix ends between two parts of the name."""
    rest = image.removeprefix(prefix)
    return image.startswith(prefix) and (not rest or prefix[-1] in "/:@" or rest[0] in "/:@")


def matches_name_pattern(variable: str, pattern: str) -> bool:
    """Return True if a variable's name equals `pattern`. A `*` at the end of the pattern matches any rest."""
    return variable.startswith(pattern[:-1]) if pattern.endswith("*") else variable == pattern


def _user_variables(view: PodTemplateView, inputs: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield (field of the spec, name) of each variable that a user sets, even if it also has an operator default."""
    engine = _get_section(inputs, "engine")
    user_names = {variable.get("name") for variable in _get_list(engine, "env") if isinstance(variable, dict)}
    for spec_field, name in view.variables:
        is_default = spec_field == "spec.engine.env" and (name in OWN_VARIABLES or name in knobs())
        if not is_default or name in user_names:
            yield spec_field, name


def _has_api_key(view: PodTemplateView) -> bool:
    runtime_containers = [container for container in view.spec.containers if container.name == CONTAINER]
    # Without an optional Secret, the kubelet would set no variable, and the server would require no key.
    return any(
        variable.name == API_KEY_VARIABLE and variable.is_required_secret
        for container in runtime_containers
        for variable in container.env
    )


_SOURCES = {
    "huggingFace": SourceKind.HUGGING_FACE,
    "persistentVolumeClaim": SourceKind.CLAIM,
    "hostPath": SourceKind.HOST_PATH,
    "ociImage": SourceKind.OCI_IMAGE,
}


def engine_limit_violations(
    revision: Revision, views: Sequence[PodTemplateView], limits: ClassLimits
) -> Iterator[Finding]:
    """Yield the engine settings of a revision that exceed the limits of its class.

    A stored revision may have forged inputs. Therefore the configuration and the mounts of its pods are checked, too.
    """
    try:
        config = _Config.model_validate_json(revision.config) if revision.config else _Config()
    except ValidationError:
        yield "the configuration of the stored revision", "cannot be read"
        return
    engine = _get_section(revision.inputs, "engine")
    for argument in (*_get_list(engine, "extraArgs"), *config.engine.extra_args):
        name = str(argument).partition("=")[0]
        if limits.extra_arguments is not None and name.startswith("--") and name not in limits.extra_arguments:
            yield f"spec.engine.extraArgs {name}", _not_allowed_reason("extraArguments", limits.extra_arguments)
    variables = {
        each.name: each.value for view in views for container in view.spec.containers for each in container.env
    }
    for settings in (_get_section(engine, "settings"), config.engine.settings, variables):
        for name, value in () if limits.trust_remote_code else settings.items():
            if name in FILES_OF_CODE or (name == TRUST_REMOTE_CODE and str(value).lower() != "false"):
                yield f"spec.engine.settings {name}", "is not allowed (limits.trustRemoteCode)"
    for stall_timeout in (
        _get_section(revision.inputs, "warmup").get("stallTimeoutSeconds"),
        config.serving.stall_timeout_seconds,
    ):
        max_timeout = limits.max_stall_timeout_seconds
        if max_timeout is not None and isinstance(stall_timeout, int) and stall_timeout > max_timeout:
            yield (
                f"spec.warmup.stallTimeoutSeconds {stall_timeout}",
                f"is above {max_timeout} (limits.maxStallTimeoutSeconds)",
            )
    mounted_sources = (source for view in views for source in view.model_sources)
    for model_field, kind in (
        *_model_sources(_get_section(revision.inputs, "model")),
        *mounted_sources,
        *config.model.fetched_sources,
    ):
        if limits.model_sources is not None and _SOURCES.get(kind) not in limits.model_sources:
            yield f"spec.model.{model_field}.{kind}", _not_allowed_reason("modelSources", limits.model_sources)


def _model_sources(model: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield (field below spec.model, kind of source) of the model and its adapters, from the inputs of a revision."""
    for model_field, parent in (
        ("source", model),
        *(("lora.adapters.source", adapter) for adapter in _get_list(_get_section(model, "lora"), "adapters")),
    ):
        yield from ((model_field, kind) for kind in _get_section(parent, "source"))


class _Engine(TolerantModel):
    settings: dict[str, Any] = Field({})
    extra_args: tuple[Any, ...] = ()


class _HubModel(TolerantModel):
    hub: dict[str, Any] | None = None


class _Model(_HubModel):
    adapters: tuple[_HubModel, ...] = ()

    @property
    def fetched_sources(self) -> Iterator[Finding]:
        """Yield (field below spec.model, kind of source) of each model that the runtime fetches."""
        if self.hub is not None:
            yield "source", "huggingFace"
        yield from (("lora.adapters.source", "huggingFace") for adapter in self.adapters if adapter.hub is not None)


class _Serving(TolerantModel):
    stall_timeout_seconds: int | None = None


class _Config(TolerantModel):
    """The parts of a RuntimeConfig that a class limits."""

    engine: _Engine = _Engine()
    model: _Model = _Model()
    serving: _Serving = _Serving()


def _get_section(parent: object, name: str) -> Mapping[str, Any]:
    value = parent.get(name) if isinstance(parent, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _get_list(parent: Mapping[str, Any], name: str) -> list[Any]:
    value = parent.get(name)
    return value if isinstance(value, list) else []


def _cards_per_replica(revision: Revision, views: Sequence[PodTemplateView]) -> int:
    """Return the number of cards that the pods of one replica request."""
    if revision.group is None:
        return views[0].card_count
    leader, worker = views
    return leader.card_count + max(0, revision.group.size - 1) * worker.card_count


def count_limit_violations(
    spec: GaudiInferenceSpec, revision: Revision, views: Sequence[PodTemplateView], limits: ClassLimits
) -> Iterator[Finding]:
    """Yield the counts of a revision that exceed the limits of its class: replicas, autoscaler and claim templates."""
    cards_per_replica = _cards_per_replica(revision, views)
    for template in (claim_template for view in views for claim_template in view.claim_templates):
        if limits.max_cards is not None:
            yield (
                f"spec.accelerator.resourceClaimTemplateName {template}",
                "may request any number of cards, which limits.maxCards forbids",
            )
    replica_counts = [("spec.replicas", spec.replicas)]
    if spec.autoscaling:
        replica_counts.append(("spec.autoscaling.maxReplicas", spec.autoscaling.max_replicas))
    for spec_field, replicas in replica_counts:
        if limits.max_replicas is not None and replicas > limits.max_replicas:
            yield f"{spec_field} {replicas}", f"is above {limits.max_replicas} (limits.maxReplicas)"
        if limits.max_cards is not None and replicas * cards_per_replica > limits.max_cards:
            yield (
                f"{spec_field} {replicas}",
                f"needs {replicas * cards_per_replica} cards, but the maximum is {limits.max_cards} (limits.maxCards)",
            )


def max_allowed_replicas(revision: Revision, limits: ClassLimits) -> int | None:
    """Return the maximum number of replicas that the limits of the class allow, or None if there is no limit."""
    if limits.max_cards is None:
        return limits.max_replicas
    try:
        views = [PodTemplateView.model_validate(template) for template in revision.templates]
        cards_per_replica = _cards_per_replica(revision, views)
    except ValidationError:
        return 0  # pod_policy.py refuses its template
    replica_limit = limits.max_cards // cards_per_replica if cards_per_replica else None
    return min((limit for limit in (limits.max_replicas, replica_limit) if limit is not None), default=None)
