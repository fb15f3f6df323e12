"""GaudiInferenceClasses of end-to-end tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import yaml

from demo.install import Installation
from gaudi_operator.api.v1alpha1.inference_class import KIND
from gaudi_operator.api.v1alpha1.resource import API_VERSION


@contextmanager
def new_class(installed: Installation, **spec: Any) -> Iterator[str]:
    """Create a class, yield its name, and delete it."""
    name = f"class-{uuid4().hex[:8]}"
    manifest = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec}
    installed.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(manifest))
    yield name
    installed.kubectl("delete", KIND, name)
