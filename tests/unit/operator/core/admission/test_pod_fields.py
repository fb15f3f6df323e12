"""Stored pod templates are refused if the operator cannot have rendered them."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from gaudi_operator.core.admission.pod_fields import parse_device_count
from gaudi_operator.core.admission.pod_policy import PodPolicy
from gaudi_operator.core.resource import read_inference
from gaudi_operator.core.rollout.controller_revision import stored_revisions
from gaudi_operator.core.rollout.desired_revision import desired_revision
from gaudi_operator.core.rollout.revision import Revision
from tests.support.builders import Object, copied
from tests.support.examples import manifests
from tests.unit.operator.core.limit_cases import BEYOND, WITHIN
from tests.unit.operator.core.rendered_pod import stored, template
from tests.unit.operator.core.resources import ANY_HOST_PATH, DEFAULTS, inference
from tests.unit.operator.core.rollout.test_inputs import RECORDED, RELEASES
from tests.unit.operator.core.stories import condition, pod_names, revisions, served, status

POLICY = PodPolicy("models", ANY_HOST_PATH)
NICE = {"drop": ["ALL"], "add": ["SYS_NICE"]}
Change = Callable[[Object], object]
SIDE = {"name": "log", "image": "log:1"}
FOLDER = {"source": {"persistentVolumeClaim": None, "hostPath": {"path": "/models"}}}
PROBE = {"httpGet": {"path": "/", "port": 80, "host": "169.254.169.254"}}
SECURITY = "spec.securityContext"


def runtime(spec: Object) -> Object:
    found: Object = spec["containers"][0]
    return found


CHANGES: dict[str, tuple[Change, str]] = {
    "hostPID": (lambda spec: spec.update(hostPID=True), "spec.hostPID"),
    "host network": (lambda spec: spec.update(hostNetwork=True), "spec.hostNetwork"),
    "node by name": (lambda spec: spec.update(nodeName="a"), "spec.nodeName"),
    "token": (lambda spec: spec.update(automountServiceAccountToken=True), "spec.automountServiceAccountToken"),
    "token left to the account": (
        lambda spec: spec.pop("automountServiceAccountToken"),
        "spec.automountServiceAccountToken",
    ),
    "root": (lambda spec: spec["securityContext"].update(runAsUser=0), "spec.securityContext"),
    "user of the image": (lambda spec: spec["securityContext"].update(runAsNonRoot=False), "spec.securityContext"),
    "no security context": (lambda spec: spec.pop("securityContext"), "spec.securityContext"),
    "no seccomp": (
        lambda spec: spec["securityContext"].update(seccompProfile={"type": "Unconfined"}),
        "spec.securityContext",
    ),
    "SELinux": (lambda spec: spec["securityContext"].update(seLinuxOptions={}), "spec.securityContext"),
    "privileged": (
        lambda spec: runtime(spec)["securityContext"].update(privileged=True),
        "spec.containers.securityContext",
    ),
    "SYS_ADMIN": (
        lambda spec: runtime(spec)["securityContext"]["capabilities"].update(add=["SYS_ADMIN"]),
        "spec.containers.securityContext",
    ),
    "SYS_NICE of a sidecar": (
        lambda spec: spec["initContainers"][0]["securityContext"]["capabilities"].update(add=["SYS_NICE"]),
        "spec.initContainers.securityContext",
    ),
    "escalation": (
        lambda spec: runtime(spec)["securityContext"].pop("allowPrivilegeEscalation"),
        "spec.containers.securityContext",
    ),
    "written root": (
        lambda spec: runtime(spec)["securityContext"].update(readOnlyRootFilesystem=False),
        "spec.containers.securityContext",
    ),
    "port of the node": (
        lambda spec: runtime(spec)["ports"].append({"containerPort": 80, "hostPort": 80}),
        "spec.containers.ports.hostPort",
    ),
    "probe of a host": (
        lambda spec: runtime(spec).update(livenessProbe=PROBE),
        "spec.containers.livenessProbe.httpGet.host",
    ),
    "hook": (
        lambda spec: runtime(spec).update(lifecycle={"preStop": PROBE}),
        "spec.containers.lifecycle.preStop.httpGet",
    ),
    "whole Secret": (lambda spec: runtime(spec).update(envFrom=[]), "spec.containers.envFrom"),
    "projected token": (
        lambda spec: spec["volumes"].append({"name": "t", "projected": {"sources": [{"serviceAccountToken": {}}]}}),
        "spec.volumes.projected.serviceAccountToken",
    ),
    "NFS": (lambda spec: spec["volumes"].append({"name": "n", "nfs": {}}), "spec.volumes.nfs"),
    "folder that is written to": (
        lambda spec: [each.update(readOnly=False) for each in runtime(spec)["volumeMounts"]],
        "spec.containers.volumeMounts.readOnly",
    ),
    "folder that is created": (
        lambda spec: [each["hostPath"].update(type="Directory") for each in spec["volumes"] if "hostPath" in each],
        "spec.volumes.hostPath.type",
    ),
    "cards without a number": (
        lambda spec: runtime(spec)["resources"].update(limits={"habana.ai/gaudi": "8k"}),
        "spec.containers.resources.limits",
    ),
    "name that is no word": (lambda spec: spec.update({"\ud800": 1}), "spec.?"),
    "longest word that is shown": (lambda spec: spec.update({"a" * 64: 1}), f"spec.{'a' * 64}"),
    "word that is too long": (lambda spec: spec.update({"a" * 65: 1}), "spec.?"),
    "volumes of the node": (
        lambda spec: spec["volumes"].append({"name": "x", "ephemeral": {}}),
        "spec.volumes.ephemeral",
    ),
    "mounts that reach the node": (
        lambda spec: runtime(spec)["volumeMounts"][0].update(mountPropagation="Bidirectional"),
        "spec.containers.volumeMounts.mountPropagation",
    ),
    "folder that a sidecar writes to": (
        lambda spec: spec["initContainers"][0].update(volumeMounts=[{"name": "model", "mountPath": "/m"}]),
        "spec.initContainers.volumeMounts.readOnly",
    ),
    "requested cards without a number": (
        lambda spec: runtime(spec)["resources"].update(requests={"habana.ai/gaudi": "8k"}),
        "spec.containers.resources.requests",
    ),
    "probe by another protocol": (
        lambda spec: runtime(spec)["livenessProbe"].update(tcpSocket={}),
        "spec.containers.livenessProbe.tcpSocket",
    ),
    "command as a probe": (
        lambda spec: runtime(spec)["readinessProbe"].update(exec={}),
        "spec.containers.readinessProbe.exec",
    ),
    "hook at the start": (
        lambda spec: runtime(spec).update(lifecycle={"postStart": {"exec": {}}}),
        "spec.containers.lifecycle.postStart",
    ),
    "group root": (lambda spec: spec["securityContext"].update(runAsGroup=0), SECURITY),
    "files of group root": (lambda spec: spec["securityContext"].update(fsGroup=0), SECURITY),
    "group root among others": (lambda spec: spec["securityContext"].update(supplementalGroups=[6, 0]), SECURITY),
    "user that is no number": (lambda spec: spec["securityContext"].update(runAsUser="root"), SECURITY),
    "seccomp by name": (
        lambda spec: spec["securityContext"]["seccompProfile"].update(localhostProfile="mine"),
        SECURITY,
    ),
    "rights of the image": (
        lambda spec: runtime(spec).pop("securityContext"),
        "spec.containers.securityContext",
    ),
    "processes of another user": (
        lambda spec: runtime(spec)["securityContext"].update(runAsUser=0),
        "spec.containers.securityContext",
    ),
    "capabilities that stay": (
        lambda spec: runtime(spec)["securityContext"]["capabilities"].update(drop=["NET_RAW"]),
        "spec.containers.securityContext",
    ),
    "capabilities that are no list": (
        lambda spec: runtime(spec)["securityContext"]["capabilities"].update(add={}),
        "spec.containers.securityContext",
    ),
    "capability that begins like ours": (
        lambda spec: runtime(spec)["securityContext"]["capabilities"].update(add=["SYS_NICER"]),
        "spec.containers.securityContext",
    ),
    "SYS_NICE of a container named nearly as ours": (
        lambda spec: spec["initContainers"][0].update(
            name="runtime-2", securityContext=runtime(spec)["securityContext"] | {"capabilities": NICE}
        ),
        "spec.initContainers.securityContext",
    ),
}


@pytest.mark.parametrize("case", CHANGES)
def test_template_with_unrendered_fields_is_refused(case: str) -> None:
    change, field = CHANGES[case]
    rendered = template(model=FOLDER, pod={"sidecars": [SIDE], "resources": {"memory": "64Gi"}})
    assert POLICY.find_violation(stored(rendered)) is None
    change(rendered["spec"])
    found = POLICY.find_violation(stored(rendered))
    assert found is not None
    assert found.reason == "PodTemplateNotAllowed"
    assert found.message == (
        f"its pod template has {field} with a value that this operator does not write. Change the field in "
        "spec.pod, or delete the ControllerRevision, so that the operator renders a new template."
    )


ALLOWED: dict[str, Change] = {
    "writable volume named nearly as a folder": lambda spec: [
        spec["volumes"].append({"name": "model-scratch", "emptyDir": {}}),
        runtime(spec)["volumeMounts"].append({"name": "model-scratch", "mountPath": "/scratch"}),
    ],
    "no volumes": lambda spec: spec.pop("volumes"),
    "no cards": lambda spec: runtime(spec)["resources"].update(limits={"habana.ai/gaudi": "0"}),
    "amount of no device": lambda spec: runtime(spec)["resources"].update(requests={"cpu": "1500m"}),
    "lowest user": lambda spec: spec["securityContext"].update(runAsUser=1),
    "every field of a security context": lambda spec: spec["securityContext"].update(
        fsGroup=65532,
        fsGroupChangePolicy="OnRootMismatch",
        runAsGroup=65532,
        runAsUser=65532,
        supplementalGroups=[65532],
    ),
    "SYS_NICE of the runtime": lambda spec: runtime(spec)["securityContext"].update(capabilities=NICE),
}


@pytest.mark.parametrize("case", ALLOWED)
def test_renderable_template_is_allowed(case: str) -> None:
    rendered = template(model=FOLDER, pod={"sidecars": [SIDE]})
    ALLOWED[case](rendered["spec"])
    assert POLICY.find_violation(stored(rendered)) is None


def test_template_without_a_spec_is_refused() -> None:
    assert refusal(stored({})) == "PodTemplateNotAllowed"


@pytest.mark.parametrize(
    ("amount", "number"),
    [
        *((8, 8), ("8", 8), (0, 0), ("0", 0), (-1, None), ("-1", None)),
        *((each, None) for each in ("8k", "8.0", 8.0, None, True, ["8"])),
    ],
)
def test_device_count_must_be_an_integer(amount: object, number: int | None) -> None:
    assert parse_device_count(amount) == number


BY_OTHER_RULES = {None, "NeedsClass"}
"""Templates with an invalid field are refused before the rules that a class may relax."""


def refusal(revision: Revision) -> str | None:
    found = POLICY.find_violation(revision)
    return found.reason if found else None


@pytest.mark.parametrize("place", manifests())
def test_every_example_renders_an_allowed_template(place: str) -> None:
    manifest = manifests()[place]
    metadata = {**manifest["metadata"], "namespace": "models", "uid": "u", "generation": 1}
    asked = read_inference({**manifest, "metadata": metadata})
    assert POLICY.find_violation(desired_revision(asked, (), DEFAULTS)) is None


@pytest.mark.parametrize("spec", [each[1] for each in (*BEYOND, *WITHIN)], ids=str)
def test_specs_at_class_limits_render_allowed_templates(spec: dict[str, Any]) -> None:
    assert refusal(desired_revision(inference(**spec), (), DEFAULTS)) in BY_OTHER_RULES


@pytest.mark.parametrize("release", RELEASES)
def test_revisions_of_earlier_releases_are_allowed(release: str) -> None:
    objects = json.loads((RECORDED / release / "objects.json").read_text())
    kept = stored_revisions([each for each in objects if each["kind"] == "ControllerRevision"])
    assert kept
    assert {refusal(each) for each in kept} <= BY_OTHER_RULES


@pytest.mark.parametrize("release", RELEASES)
def test_templates_completed_by_the_api_server_are_allowed(release: str) -> None:
    objects = json.loads((RECORDED / release / "objects.json").read_text())
    for each in (each for each in objects if each["kind"] == "ReplicaSet"):
        completed = copied(each["spec"]["template"])
        completed["metadata"]["creationTimestamp"] = None
        completed["spec"] |= {"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "serviceAccount": "default"}
        runtime(completed["spec"])["terminationMessagePath"] = "/dev/termination-log"
        assert refusal(stored(completed)) in BY_OTHER_RULES


def test_forged_revision_gets_no_pods_and_keeps_others() -> None:
    cluster = served()
    (first,) = revisions(cluster)
    cluster.change(engine={"maxNumSeqs": 3})
    cluster.settle()
    before, running = pod_names(cluster), revisions(cluster)
    cluster.objects["ControllerRevision", f"tiny-{first}"]["data"]["template"]["spec"]["hostPID"] = True
    cluster.change(engine={"maxNumSeqs": 4})
    cluster.settle()
    assert (pod_names(cluster), revisions(cluster)) == (before, running)
    assert condition(cluster, "Stalled") == ("True", "PodTemplateNotAllowed")
    assert condition(cluster, "Available")[0] == "True"
    (stalled,) = [each for each in status(cluster)["conditions"] if each["type"] == "Stalled"]
    assert stalled["message"].startswith(
        f"The operator creates no more pods of revision {first}: its pod template has spec.hostPID with a value "
    )


def test_serving_forged_revision_keeps_serving() -> None:
    cluster = served()
    (only,) = revisions(cluster)
    before = pod_names(cluster)
    cluster.objects["ControllerRevision", f"tiny-{only}"]["data"]["template"]["spec"]["hostPID"] = True
    cluster.change(replicas=5)
    cluster.settle()
    assert pod_names(cluster) == before
    assert condition(cluster, "Stalled") == ("True", "PodTemplateNotAllowed")
    assert status(cluster)["readyReplicas"] == 2


def test_deleted_forged_revision_is_rendered_again() -> None:
    cluster = served()
    (only,) = revisions(cluster)
    cluster.objects["ControllerRevision", f"tiny-{only}"]["data"]["template"]["spec"]["hostPID"] = True
    cluster.change(replicas=3)
    cluster.settle()
    del cluster.objects["ControllerRevision", f"tiny-{only}"]
    cluster.settle()
    assert len(pod_names(cluster)) == 3
    assert condition(cluster, "Stalled")[0] == "False"
