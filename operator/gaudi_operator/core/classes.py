"""The GaudiInferenceClass of a resource, and the defaults of the class (docs/how-to/classes.md).

`spec.className` names the class. Without a name, the default class applies. A class selects the namespaces that may use
it and the installation that serves it. When a revision is created, the defaults of the class become part of it.
Therefore a changed class restarts no pods. The status reports which fields the change would affect.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, cast

from pydantic import ValidationError

from gaudi_operator.api.base import ApiModel
from gaudi_operator.api.v1alpha1.inference_class import (
    DEFAULT_CONTROLLER,
    ClassDefaults,
    ClassLimits,
    Enforcement,
    GaudiInferenceClass,
    GaudiInferenceClassSpec,
)
from gaudi_operator.api.v1alpha1.pods.containers import ContainerResources, ResourceAmounts
from gaudi_operator.api.v1alpha1.selectors import LabelRequirement, LabelSelector, SelectorOperator
from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.core.inference import Inference
from gaudi_operator.core.installation import InstallationDefaults
from gaudi_operator.core.names import CONTROLLER_ANNOTATION
from gaudi_operator.core.observed import Manifest, Observed
from gaudi_operator.core.rendering.runtime_config import runs_on_cpu
from gaudi_runtime.errors import Problem

FORBIDDEN = "ForbiddenByClass"


@dataclass(frozen=True)
class ResolvedClass:
    """The class of one resource, or the problem that prevents the operator from using the class.

    `spec` is the spec of the class. `served_elsewhere` is True if another installation serves the class.
    """

    name: str | None = None
    spec: GaudiInferenceClassSpec | None = None
    problem: Problem | None = None
    served_elsewhere: bool = False

    @property
    def limits(self) -> ClassLimits:
        """The limits of the class, or no limits without a class. The entries of their lists are permitted."""
        return self.spec.limits if self.spec else ClassLimits()

    @property
    def enforced_limits(self) -> ClassLimits:
        """The limits that refuse a spec: none if the class only warns."""
        return ClassLimits() if self.only_warns else self.limits

    @property
    def only_warns(self) -> bool:
        """Whether the class reports values beyond its limits instead of refusing them."""
        return self.spec is not None and self.spec.enforcement is Enforcement.WARN


NO_CLASS = ResolvedClass()


def resolve_class(inference: Inference, observed: Observed, defaults: InstallationDefaults) -> ResolvedClass:
    """Return the class of a resource, or NO_CLASS if the resource names no class and there is no default class.

    If the installation requires a class, return a problem instead of NO_CLASS.
    """
    class_name = inference.spec.class_name
    class_or_problem = _find_class(class_name, observed) if class_name else _find_default_class(observed)
    if _find_controller(class_or_problem, observed) != defaults.controller:
        return ResolvedClass(served_elsewhere=True)
    if class_or_problem is None:
        return ResolvedClass(problem=_REQUIRED) if defaults.require_class else NO_CLASS
    if isinstance(class_or_problem, Problem):
        return ResolvedClass(class_name, problem=class_or_problem)
    name = class_or_problem["metadata"]["name"]
    try:
        class_spec = GaudiInferenceClass.model_validate(class_or_problem).spec
    except ValidationError:
        return ResolvedClass(name, problem=Problem("ClassUnreadable", _UNREADABLE.format(name)))
    namespace = inference.identity.namespace
    if class_spec.namespace_selector is not None and not class_selector_matches(
        class_spec.namespace_selector, observed.namespace_labels
    ):
        subject = "spec.className" if class_name else "spec.className is left out, and the default class"
        return ResolvedClass(
            name,
            class_spec,
            Problem(
                FORBIDDEN,
                f"{subject} {name} is not for namespace {namespace}, because spec.namespaceSelector of the class does "
                "not select this namespace. Use another class.",
            ),
        )
    return ResolvedClass(name, class_spec)


_REQUIRED = Problem(
    "ClassRequired",
    "spec.className is left out and there is no default class, but this installation requires a class. Set "
    "spec.className to a class listed by `kubectl get gic`.",
)
_UNREADABLE = (
    "Class {} has fields or values that this operator does not know, so the limits of the class are unknown. Install "
    "the same release of the operator and the CustomResourceDefinitions."
)


def classes_need_namespace_labels(observed: Observed) -> bool:
    """Return True if any class selects namespaces by labels."""
    return any((manifest.get("spec") or {}).get("namespaceSelector") is not None for manifest in observed.classes)


def _find_class(name: str, observed: Observed) -> Manifest | Problem:
    manifest = next((candidate for candidate in observed.classes if candidate["metadata"]["name"] == name), None)
    return manifest or Problem(
        "ClassMissing",
        f"spec.className is {name}, but no GaudiInferenceClass has this name. Create the class, or set "
        "spec.className to a class listed by `kubectl get gic`.",
    )


def _find_default_class(observed: Observed) -> Manifest | Problem | None:
    default_classes = [manifest for manifest in observed.classes if (manifest.get("spec") or {}).get("default")]
    if len(default_classes) < 2:
        return next(iter(default_classes), None)
    names = ", ".join(sorted(manifest["metadata"]["name"] for manifest in default_classes))
    return Problem(
        "ClassAmbiguous",
        f"spec.className is left out, but several classes are the default ({names}). Set spec.className, or keep "
        "only one default class.",
    )


def _find_controller(class_or_problem: Manifest | Problem | None, observed: Observed) -> Any:
    """Return the name of the installation that serves a resource.

    Without a class, this is the installation that ran the newest revision, or the default installation. Therefore two
    installations never serve the same resource.
    """
    if class_or_problem is None or isinstance(class_or_problem, Problem):
        names = {
            manifest.get("revision", 0): annotations[CONTROLLER_ANNOTATION]
            for manifest in observed.revisions
            if CONTROLLER_ANNOTATION in (annotations := manifest["metadata"].get("annotations") or {})
        }
        return names[max(names)] if names else DEFAULT_CONTROLLER
    # Read `controller` from the raw manifest. A class of another installation may have fields of a newer release, which
    # would fail the validation.
    return (class_or_problem.get("spec") or {}).get("controller")


def class_selector_matches(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Return True if the namespace selector of a class matches the labels of a namespace, as defined by Kubernetes."""
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        _requirement_matches(requirement, labels) for requirement in selector.match_expressions
    )


def _requirement_matches(requirement: LabelRequirement, labels: Mapping[str, str]) -> bool:
    match requirement.operator:
        case SelectorOperator.IN:
            return labels.get(requirement.key) in requirement.values
        case SelectorOperator.NOT_IN:
            return labels.get(requirement.key) not in requirement.values
        case SelectorOperator.EXISTS:
            return requirement.key in labels
        case SelectorOperator.DOES_NOT_EXIST:
            return requirement.key not in labels


@dataclass(frozen=True)
class ClassFilledInference:
    """A resource and the defaults of the installation, both with the values of the class.

    `values` maps the path of each value below the spec, or its name in the class if the spec has no such field, to the
    JSON value.
    """

    inference: Inference
    defaults: InstallationDefaults
    values: Mapping[str, Any] = field(default_factory=dict)


def fill_class_defaults(
    inference: Inference, platform: ResolvedClass, defaults: InstallationDefaults
) -> ClassFilledInference:
    """Return the resource and the defaults of the installation with the values of the class."""
    if platform.spec is None:
        return ClassFilledInference(inference, defaults)
    class_defaults = platform.spec.defaults
    spec, values = inference.spec, dict(_default_values(inference.spec, class_defaults))
    for path, value in values.items():
        spec = _replace_field(spec, tuple(path.split(".")), value)
    settings = _settings_without_field(inference.spec, class_defaults)
    json_values = {
        **{".".join(_manifest_names(spec, *path.split("."))): value for path, value in values.items()},
        **{next(_manifest_names(class_defaults, name)): value for name, value in settings.items()},
    }
    return ClassFilledInference(
        replace(inference, spec=spec),
        replace(defaults, **settings),
        {path: _to_json_value(value) for path, value in json_values.items()},
    )


def _settings_without_field(spec: GaudiInferenceSpec, defaults: ClassDefaults) -> dict[str, Any]:
    """Return the settings of the class that the spec has no field for, by their Python names."""
    has_user = spec.pod.run_as_user or defaults.run_as_user
    names = ("tracing", "capabilities", "cache_size", "tmp_size", *(() if has_user else ("user_from_cluster",)))
    return {name: value for name in names if (value := getattr(defaults, name))}


def _default_values(spec: GaudiInferenceSpec, defaults: ClassDefaults) -> Iterator[tuple[str, Any]]:
    """Yield (path below spec in Python names, default) of each field that the class fills and the spec does not set."""
    pod = spec.pod
    values = {
        "server.image": getattr(defaults.images, spec.accelerator.generation.value),
        "pod.image_pull_secrets": defaults.image_pull_secrets,
        "server.image_pull_policy": defaults.image_pull_policy,
        "pod.node_selector": defaults.node_selector,
        "pod.tolerations": defaults.tolerations,
        "pod.priority_class_name": defaults.priority_class_name,
        "accelerator.hugepages": None if runs_on_cpu(spec.accelerator) else defaults.hugepages,
        **dict(_resource_defaults(pod.resources, defaults.resources)),
        "pod.shared_memory_size": defaults.shared_memory_size,
        "pod.run_as_user": defaults.run_as_user,
    }
    return ((path, value) for path, value in values.items() if value and not _is_set(spec, path))


def _is_set(spec: GaudiInferenceSpec, path: str) -> bool:
    """Return True if the user wrote the field. As in Kubernetes, an empty list or map is the same as no value."""
    return reduce(getattr, path.split("."), cast("Any", spec)) not in (None, (), {})


def _resource_defaults(resources: ContainerResources, defaults: ContainerResources) -> Iterator[tuple[str, Any]]:
    """Yield (path, default) of each resource for which the spec has no request and no limit."""
    for name in ResourceAmounts.model_fields:
        if getattr(resources.requests, name) is None and getattr(resources.limits, name) is None:
            yield f"pod.resources.requests.{name}", getattr(defaults.requests, name)
            yield f"pod.resources.limits.{name}", getattr(defaults.limits, name)


def _replace_field(model: Any, path: tuple[str, ...], value: Any) -> Any:
    name, *rest = path
    new_value = _replace_field(getattr(model, name), tuple(rest), value) if rest else value
    return model.model_copy(update={name: new_value})


def _manifest_names(model: Any, name: str, *rest: str) -> Iterator[str]:
    """Yield the names in the path of a field as they are written in a manifest."""
    yield type(model).model_fields[name].alias or name
    if rest:
        yield from _manifest_names(getattr(model, name), *rest)


def _to_json_value(value: Any) -> Any:
    if isinstance(value, ApiModel):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return [_to_json_value(entry) for entry in value] if isinstance(value, tuple) else value
