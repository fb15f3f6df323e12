"""Parts of the small resource's rendered pod."""

from typing import Any

from gaudi_operator.core.inference import Inference
from gaudi_operator.core.installation import InstallationDefaults
from gaudi_operator.core.rendering.pod_template import pod_template
from gaudi_operator.core.rollout.revision import Revision
from tests.unit.operator.core.resources import DEFAULTS, inference

HUB = {"source": {"persistentVolumeClaim": None, "huggingFace": {"repo": "a/b"}}}
HUB_WITH_TOKEN = {**HUB, "tokenSecretRef": {"name": "hub", "key": "token"}}


def template(
    given: Inference | None = None, defaults: InstallationDefaults = DEFAULTS, **overrides: Any
) -> dict[str, Any]:
    """Return the pod template of `given`, or of the small resource with `overrides`."""
    return pod_template(given or inference(**overrides), "r1", "p" * 64, "tiny-config", defaults)


def stored(rendered: dict[str, Any]) -> Revision:
    """Return a stored revision with this pod template; its other fields are not checked."""
    return Revision("r1", 1, {}, rendered, "")


def spec(**overrides: Any) -> dict[str, Any]:
    found: dict[str, Any] = template(**overrides)["spec"]
    return found


def container(**overrides: Any) -> dict[str, Any]:
    (only,) = spec(**overrides)["containers"]
    found: dict[str, Any] = only
    return found


def environment(**overrides: Any) -> dict[str, Any]:
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container(**overrides)["env"]}


def volume(name: str, **overrides: Any) -> dict[str, Any]:
    return next(each for each in spec(**overrides)["volumes"] if each["name"] == name)


def mounts(**overrides: Any) -> dict[str, Any]:
    return {each["name"]: each for each in container(**overrides)["volumeMounts"]}


def mount(path: str, **overrides: Any) -> dict[str, Any] | None:
    return next((each for each in container(**overrides)["volumeMounts"] if each["mountPath"] == path), None)
