"""Messages about image or memory problems name the field of the spec that sets the image or the memory."""

from typing import Any

import pytest

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus
from gaudi_operator.core.pods.pod_view import PodView
from gaudi_operator.core.pods.terminations import terminations_by_pod
from gaudi_operator.core.problems.criteria import RoomCriterion
from gaudi_operator.core.rendering.pod_template import pod_template
from gaudi_operator.core.rollout.revision import Revision
from tests.support.builders import Object
from tests.unit.operator.core.pod_objects import pod, view
from tests.unit.operator.core.resources import DEFAULTS, inference
from tests.unit.operator.core.states import problem_of, state_of

SERVER = "registry.test/llama"
MODEL = "registry.test/llama-weights:1"
SIDE = "registry.test/proxy:2"
SPEC: dict[str, Any] = {
    "server": {"image": SERVER},
    "model": {
        "source": {"persistentVolumeClaim": None, "ociImage": {"reference": MODEL}},
        "lora": {"adapters": [{"name": "sql", "source": {"ociImage": {"reference": "registry.test/sql"}}}]},
    },
    "pod": {"sidecars": [{"name": "proxy", "image": SIDE, "volumeMounts": []}]},
}


def problem(pod: PodView, spec: dict[str, Any] = SPEC) -> str:
    """Return the message about the problem of a pod whose revision was rendered from `spec`."""
    revision = Revision("r1", 1, {}, pod_template(inference(**spec), "r1", "hash", "config", DEFAULTS), "")
    ends = terminations_by_pod([pod], GaudiInferenceStatus(), {})
    found = problem_of(pod, state_of(stored=(revision,), terminations=ends), RoomCriterion(to_come=False))
    assert found is not None
    return found.message


def pulling(image: str) -> PodView:
    return view(pod(state={"waiting": {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{image}"'}}))


def with_sidecar(status: Object) -> PodView:
    """Return a pod whose sidecar `proxy` has this status."""
    manifest = pod(state={"waiting": {"reason": "PodInitializing"}})
    manifest["spec"] = {"initContainers": [{"name": "proxy", "restartPolicy": "Always"}]}
    manifest["status"]["initContainerStatuses"] = [{"name": "proxy", **status}]
    return view(manifest)


@pytest.mark.parametrize(
    ("image", "field"),
    [
        # If an image in the spec has no tag, the kubelet reports the image with the tag `latest`.
        (f"{SERVER}:latest", "spec.server.image (or the installation's default)"),
        (MODEL, "spec.model.source.ociImage.reference"),
        (
            "registry.test/sql:latest",
            "spec.model.lora.adapters[0].source.ociImage.reference",
        ),
    ],
    ids=["server", "model", "adapter"],
)
def test_image_that_cannot_be_pulled_names_its_field(image: str, field: str) -> None:
    assert problem(pulling(image)) == (
        f'Pod a cannot start its container: Back-off pulling image "{image}". The image is set by {field}. Check its '
        f"name and registry, its pull policy and spec.pod.imagePullSecrets."
    )


def test_image_of_a_sidecar_names_its_field() -> None:
    waits = {"waiting": {"reason": "ErrImagePull", "message": f'failed to pull image "{SIDE}"'}}
    assert "The image is set by spec.pod.sidecars[proxy].image. Check" in problem(with_sidecar({"state": waits}))


def test_message_without_an_image_name_lists_all_image_fields() -> None:
    found = problem(view(pod(state={"waiting": {"reason": "ErrImagePull", "message": "no such host"}})))
    assert (
        "The image is set by one of spec.server.image (or the installation's default), "
        "spec.model.source.ociImage.reference, spec.model.lora.adapters[0].source.ociImage.reference. Check"
    ) in found


KILLED = {"reason": "OOMKilled", "exitCode": 137, "message": "loading\nshard 3 of 4\n"}


def killed(limits: Object) -> str:
    """Return the message about a runtime that the kernel killed for lack of memory, with its limits."""
    waits = {"waiting": {"reason": "CrashLoopBackOff"}}
    return problem(view(pod(state=waits, last_state={"terminated": KILLED})), {"pod": {"resources": limits}})


def test_container_killed_for_memory_names_its_limit() -> None:
    assert killed({"limits": {"memory": "64Gi"}}) == (
        "The container of pod a terminates repeatedly. OOMKilled, exit code 137: the kernel killed the container "
        "because memory ran out; last log line: shard 3 of 4. The memory limit of the container is 64Gi. Raise "
        "spec.pod.resources.limits.memory. This is memory of the node, not of the card. Read its log with `kubectl "
        "logs a --previous`."
    )


def test_container_without_a_limit_gets_advice_to_request_memory() -> None:
    assert (
        "The container has no memory limit, and its node ran out of memory. Set spec.pod.resources.requests.memory."
    ) in killed({})


def test_sidecar_killed_for_memory_names_its_limit() -> None:
    status = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": KILLED}}
    sidecar = {"name": "proxy", "image": SIDE, "resources": {"limits": {"memory": "1Gi"}}}
    found = problem(with_sidecar(status), {"pod": {"sidecars": [sidecar]}})
    assert (
        "The sidecar proxy of pod a terminates repeatedly. OOMKilled, exit code 137: the kernel killed the container "
        "because memory ran out; last log line: shard 3 of 4. The memory limit of the container is 1Gi. Raise "
        "spec.pod.sidecars[proxy].resources.limits.memory."
    ) in found
