"""Pods of all accepted specs.

They meet the Pod Security level `restricted`, with the exceptions in the documentation.
"""

from functools import partial
from typing import Any
from uuid import uuid4

import pytest

from gaudi_operator.core.inference import read_inference
from gaudi_operator.core.installation import InstallationDefaults
from gaudi_operator.core.rendering.pod_template import pod_template
from localcluster import ControlPlane
from tests.cluster.objects import Objects, Refused
from tests.cluster.test_platform_pods import ENV, OF_A_CLASS, POD
from tests.support.builders import Object, gaudi_inference
from tests.unit.operator.core.gaudi_classes import class_settings
from tests.unit.operator.core.resources import DEFAULTS

LEVELS = ("restricted", "baseline", "privileged")
HOST = {"source": {"persistentVolumeClaim": None, "hostPath": {"path": "/models"}}}
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "least": ({}, "restricted"),
    "all that platforms ask for": ({"pod": POD, "engine": {"env": ENV}}, "restricted"),
    "a model of a hub": (
        {"model": {"source": {"persistentVolumeClaim": None, "huggingFace": {"repo": "a/b"}}}},
        "restricted",
    ),
    "shared recipes": ({"recipeCache": {}}, "restricted"),
    "a folder of the node": ({"model": HOST}, "privileged"),
}
OF_A_CLASS_LEVELS = {"a user of the cluster": "restricted", "SYS_NICE": "privileged", "sizes of folders": "restricted"}


@pytest.fixture(scope="module")
def namespaces(control_plane: ControlPlane, objects: Objects) -> dict[str, str]:
    """A namespace for each level of the Pod Security Standards, each with a default service account."""
    names = {level: f"level-{level}-{uuid4().hex[:8]}" for level in LEVELS}
    for level, name in names.items():
        labels = {"pod-security.kubernetes.io/enforce": level}
        objects.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        # A controller creates the default service account of a new namespace. Wait for the account, because the API
        # server rejects pods until the account exists.
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        control_plane.wait(partial(control_plane.api.exists, account), f"the default service account of {name}")
    return names


def pod_of(spec: dict[str, Any], defaults: InstallationDefaults = DEFAULTS) -> Object:
    """Return a pod as a ReplicaSet would create it from the spec."""
    inference = read_inference({**gaudi_inference("tiny", **spec), "metadata": {**_METADATA}})
    template = pod_template(inference, "r1", "p" * 64, "tiny-config", defaults)
    metadata = {**template["metadata"], "generateName": "tiny-"}
    # Use the default service account of the namespace. In this test, no operator runs that could create the service
    # account of the resource.
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": template["spec"] | {"serviceAccountName": "default"},
    }


_METADATA = {"name": "tiny", "namespace": "models", "uid": "u", "generation": 1}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("case", CASES)
def test_pod_is_admitted_at_the_documented_level(
    objects: Objects, namespaces: dict[str, str], case: str, level: str
) -> None:
    spec, least = CASES[case]
    check_level(objects, namespaces, pod_of(spec), least, level)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("case", OF_A_CLASS)
def test_pod_of_a_class_is_admitted_at_the_documented_level(
    objects: Objects, namespaces: dict[str, str], case: str, level: str
) -> None:
    pod = pod_of({}, class_settings(**OF_A_CLASS[case]))
    check_level(objects, namespaces, pod, OF_A_CLASS_LEVELS[case], level)


def check_level(objects: Objects, namespaces: dict[str, str], pod: Object, least: str, level: str) -> None:
    """Assert that a namespace of `level` admits the pod only if the level is `least` or a weaker one."""
    if LEVELS.index(level) >= LEVELS.index(least):
        objects.create(pod, namespaces[level])
        return
    with pytest.raises(Refused, match=f'violates PodSecurity "{level}'):
        objects.create(pod, namespaces[level])
