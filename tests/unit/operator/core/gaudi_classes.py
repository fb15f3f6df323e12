"""GaudiInferenceClasses as the tests of core use them."""

from typing import Any

from gaudi_operator.api.v1alpha1.inference_class import DEFAULT_CONTROLLER, KIND
from gaudi_operator.api.v1alpha1.resource import API_VERSION
from tests.builders import Object


def gaudi_class(name: str = "gold", **spec: Any) -> Object:
    """A class as an API server holds it."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name, "uid": f"uid-of-{name}", "resourceVersion": "1"},
        "spec": {"controller": DEFAULT_CONTROLLER, "default": False, **spec},
    }
