"""GaudiInferenceClasses for the tests of core."""

from typing import Any

from gaudi_operator.api.v1alpha1.inference_class import DEFAULT_CONTROLLER, KIND, GaudiInferenceClass
from gaudi_operator.api.v1alpha1.resource import API_VERSION
from gaudi_operator.core.admission.pod_policy import PodPolicy
from gaudi_operator.core.children.child_actions import limited_children
from gaudi_operator.core.classes import ResolvedClass, fill_class_defaults
from gaudi_operator.core.installation import InstallationDefaults
from gaudi_operator.core.rollout.revision import Revision
from gaudi_runtime.errors import Problem
from tests.support.builders import Object
from tests.unit.operator.core.resources import ANY_HOST_PATH, DEFAULTS, inference


def gaudi_class(name: str = "gold", **spec: Any) -> Object:
    """Return a class as the API server stores it."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name, "uid": f"uid-of-{name}", "resourceVersion": "1"},
        "spec": {"controller": DEFAULT_CONTROLLER, "default": False, **spec},
    }


def class_settings(**defaults: Any) -> InstallationDefaults:
    """Return the settings of the installation for resources of a class with these `defaults`."""
    says = GaudiInferenceClass.model_validate(gaudi_class(defaults=defaults)).spec
    return fill_class_defaults(inference(), ResolvedClass("gold", says), DEFAULTS).defaults


def judged(limits: dict[str, Any], revision: Revision, enforcement: str = "Enforce", **spec: Any) -> Problem | None:
    """Return the violation of a revision against class `gold` with these limits. `spec` changes the resource."""
    says = GaudiInferenceClass.model_validate(gaudi_class(limits=limits, enforcement=enforcement)).spec
    asked = inference(**spec)
    policy = PodPolicy(asked, ANY_HOST_PATH, ResolvedClass("gold", says))
    return policy.find_violation(revision, limited_children(asked, DEFAULTS))
