"""Objects that a user with write access to a namespace may have stored in the API server."""

from collections.abc import Callable
from typing import Any

from gaudi_operator.core.names import (
    DELETION_COST_ANNOTATION,
    DESIRED_ANNOTATION,
    FAILURE_ANNOTATION,
    FORMER_NUMBERS_ANNOTATION,
    GATE,
    GROUP_INDEX_LABEL,
    GROUP_NAME_LABEL,
    GROUP_SIZE_ANNOTATION,
    IN_PLACE_ANNOTATION,
    REVISION_LABEL,
)
from tests.support.builders import Object
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.stories import served

Write = Callable[[Cluster, Any], None]

TEXTS = (
    "",
    "x",
    "-1",
    "1e9",
    " 1",
    "٣",
    "4294967296",
    "9" * 5_000,
    "[" * 100_000,
    "x" * 200_000,
    "null",
    '{"reason": "", "message": [[]]}',
    '{"reason": "\\ud800", "message": "\\udfff"}',
    '{"reason": 1e999, "message": ' + "9" * 5_000 + "}",
)

MOMENTS = (
    None,
    "0000-12-31T10:00:00Z",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "10000-01-01T00:00:00Z",
)
"""Times as the API server writes them: it reads any offset, and writes UTC."""

WRITTEN_MOMENTS = (*MOMENTS[1:], "2026-08-01T12:00:00", "2026-08-01t12:00:00.123456789z", "2026-08-01T12:00:00+23:59")
"""Other forms of the format date-time, which a schema accepts unchanged."""


def annotated(kind: str, name: str) -> Write:
    """Return a function that writes an annotation to every object of a kind."""

    def write(cluster: Cluster, value: str) -> None:
        for each in cluster.kind(kind):
            each["metadata"].setdefault("annotations", {})[name] = value

    return write


def grouped(cluster: Cluster, value: str) -> None:
    """Set labels that make pods look like members of a group."""
    for each in cluster.kind("Pod"):
        each["metadata"]["labels"] |= {GROUP_NAME_LABEL: "tiny", GROUP_INDEX_LABEL: value}
        each["metadata"]["annotations"][GROUP_SIZE_ANNOTATION] = value


ANNOTATIONS: dict[str, Write] = {
    "desired replicas": annotated("ReplicaSet", DESIRED_ANNOTATION),
    "why in place": annotated("ReplicaSet", IN_PLACE_ANNOTATION),
    "failure": annotated("ControllerRevision", FAILURE_ANNOTATION),
    "former numbers": annotated("ControllerRevision", FORMER_NUMBERS_ANNOTATION),
    "deletion cost": annotated("Pod", DELETION_COST_ANNOTATION),
    "group": grouped,
}


def turned(kind: str, status: str, reason: str = "") -> Write:
    """Return a function that gives every pod a condition with `value` as its transition time."""

    def write(cluster: Cluster, value: Any) -> None:
        for pod in cluster.kind("Pod"):
            others = [each for each in pod["status"]["conditions"] if each["type"] != kind]
            said = {"type": kind, "status": status, "reason": reason, "lastTransitionTime": value}
            pod["status"]["conditions"] = [*others, said]

    return write


def ended(cluster: Cluster, value: Any) -> None:
    """Set the start and finish time of each pod's previous container to `value`."""
    for pod in cluster.kind("Pod"):
        last = {"exitCode": -1, "startedAt": value, "finishedAt": value, "message": "\n"}
        pod["status"]["containerStatuses"][0] |= {"lastState": {"terminated": last}, "restartCount": -1}


def failed(cluster: Cluster, value: Any) -> None:
    """Set the phase of all pods to Failed, as a node does when it evicts a pod."""
    ended(cluster, value)
    for pod in cluster.kind("Pod"):
        pod["status"] |= {"phase": "Failed", "reason": "Evicted", "startTime": value}
        pod["metadata"]["creationTimestamp"] = value


def deleted(cluster: Cluster, value: Any) -> None:
    """Mark pods as terminating."""
    for pod in cluster.kind("Pod"):
        pod["metadata"]["deletionTimestamp"] = value


def refused(cluster: Cluster, value: Any) -> None:
    """Report in the status of each ReplicaSet that it cannot create pods."""
    for each in cluster.kind("ReplicaSet"):
        said = {"type": "ReplicaFailure", "status": "True", "lastTransitionTime": value}
        each["status"] = {"conditions": [said]}


def counted(cluster: Cluster, value: Any) -> None:
    """Report in the status of the autoscaler that it cannot scale."""
    for each in cluster.kind("HorizontalPodAutoscaler"):
        said = {"type": "AbleToScale", "status": "False", "reason": "FailedGetScale", "lastTransitionTime": value}
        each["status"] = {"conditions": [said]}


TIMES: dict[str, Write] = {
    "gate": turned(GATE, "True"),
    "ready": turned("Ready", "True"),
    "scheduled": turned("PodScheduled", "False", "Unschedulable"),
    "prepared": turned("PodReadyToStartContainers", "False"),
    "container": ended,
    "end of a pod": failed,
    "deletion": deleted,
    "refusal": refused,
    "autoscaler": counted,
}


def remembered(cluster: Cluster, value: Any) -> None:
    """Write a revision's last termination and back-off and the estimated end of warm-up to the status."""
    status = cluster.resource["status"]
    status["revisions"][0] |= {
        "lastTermination": {"time": value, "pod": "gone", "message": "Error, exit code 1"},
        "backOff": {"failures": 2**31 - 1, "since": value, "until": value},
    }
    status["warmup"] = {"percent": 50, "phase": "Compiling", "eta": value}


def without_revision(kind: str) -> Write:
    """Return a function that removes the revision label from all objects of a kind."""

    def write(cluster: Cluster, _: Any) -> None:
        for each in cluster.kind(kind):
            del each["metadata"]["labels"][REVISION_LABEL]

    return write


CONTENTS: tuple[Any, ...] = (
    None,
    [],
    "text",
    7,
    {"inputs": [], "template": {}, "config": ""},
    {"inputs": {}, "template": [], "config": ""},
    {"inputs": {}, "template": {"spec": None}, "config": ""},
    {"inputs": {}, "template": {"spec": {"volumes": "text"}}, "config": ""},
    {"inputs": {}, "template": {"spec": {"volumes": [7, None]}}, "config": ""},
    {"inputs": {}, "template": {"spec": {"volumes": [{"configMap": {}}, {"configMap": None}]}}, "config": ""},
    {"inputs": {}, "template": {"spec": {"volumes": [{"hostPath": "text"}]}}, "config": ""},
    {"inputs": {}, "template": {"spec": {"volumes": [{"persistentVolumeClaim": None}]}}, "config": ""},
    {"inputs": {}, "template": {"spec": {"volumes": [{}] * 400_000}}, "config": ""},
    {"inputs": {}, "template": {"spec": {"containers": [{"name": "a", "env": [{}] * 10_000}]}}, "config": ""},
    {"inputs": {}, "template": {"spec": {str(number): 0 for number in range(10_000)}}, "config": ""},
    {
        "inputs": {},
        "template": {"spec": {"containers": [{"name": "a", "volumeMounts": [[], {"name": []}]}]}},
        "config": "",
    },
    {"inputs": {}, "template": {}, "config": 7},
    {"inputs": {}, "template": {}, "config": "", "group": "text"},
    {"inputs": {}, "template": {}, "config": "", "group": {"size": 2}},
    {"inputs": {}, "template": {}, "config": "", "group": {"size": 2, "worker": {}, "more": 1}},
)
"""Data of ControllerRevisions: the API server accepts any JSON of up to 1.5 MB."""


SERVED = served(replicas=1)


def strange_revision(content: Any, number: int) -> Object:
    """Return a ControllerRevision that a user created with the operator's labels and the resource as the owner."""
    [ours] = SERVED.kind("ControllerRevision")
    labels = {**ours["metadata"]["labels"], REVISION_LABEL: "strange"}
    metadata = {
        **ours["metadata"],
        "name": "tiny-strange",
        "uid": "uid-of-strange",
        "labels": labels,
        "annotations": {},
    }
    return {**ours, "metadata": metadata, "data": content, "revision": number}
