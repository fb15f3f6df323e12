"""The policy for pods of the operator's account, also for pods of earlier releases and of groups.

The pods that the operator renders are accepted. All other pods of this account are refused.
"""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import httpx
import pytest

from gaudi_operator.core.children.manifests import leader_worker_set_manifest, replica_set_manifest
from gaudi_operator.core.inference import read_inference
from gaudi_operator.core.installation import InstallationDefaults
from gaudi_operator.core.names import FIELD_MANAGER
from gaudi_operator.core.rollout.revision_choice import choose_desired_revision
from localcluster import ControlPlane
from tests.cluster.conftest import USER, NewOperator, leader_worker_sets
from tests.cluster.objects import Objects
from tests.cluster.refusals import Row, check, refused_write
from tests.cluster.test_platform_pods import ENV, OF_A_CLASS, POD
from tests.cluster.test_releases import RELEASES, recorded
from tests.support.builders import copied, gaudi_inference
from tests.support.examples import completed, fragments, manifests
from tests.support.kube_api import KubeApi, Object, until
from tests.unit.operator.core.gaudi_classes import class_settings
from tests.unit.operator.core.limit_cases import BEYOND, WITHIN
from tests.unit.operator.core.resources import CARD, DEFAULTS

APPLY = {"Content-Type": "application/apply-patch+yaml", "Impersonate-User": USER}
Applied = Callable[[Object], Awaitable[str | None]]

HOST: Object = {"source": {"persistentVolumeClaim": None, "hostPath": {"path": "/models//llama/"}}}
GROUP: Object = {"engine": {"name": "sim"}, "accelerator": CARD, "parallelism": {"tensor": 4, "nodes": 2}}
SIDE = {"name": "log", "image": "registry.test/log:1"}


@pytest.fixture(scope="module")
def leader_worker_sets_served(control_plane: ControlPlane, objects: Objects) -> Iterator[None]:
    """Serve LeaderWorkerSets while the tests of this file run."""
    with leader_worker_sets(control_plane, objects):
        yield


@pytest.fixture
async def applied(api: KubeApi, new_operator: NewOperator, leader_worker_sets_served: None) -> Applied:
    """Return the API server's message if it refuses a manifest from the operator's account, and None otherwise."""

    async def why(manifest: Object) -> str | None:
        path = api.path(manifest["kind"], manifest["metadata"]["name"])
        parameters = {"fieldManager": FIELD_MANAGER, "force": "true", "dryRun": "All"}
        try:
            await api.send("PATCH", path, manifest, headers=APPLY, params=parameters)
        except httpx.HTTPStatusError as error:
            return str(error)
        return None

    async def policy_is_known() -> bool:
        return "may write only what a GaudiInference owns" in (await why(foreign_manifest(api.namespace)) or "")

    await until(policy_is_known, "the policy to be enforced")
    return why


def foreign_manifest(namespace: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "stranger", "namespace": namespace}}


def workload(
    namespace: str, manifest: Object | None = None, defaults: InstallationDefaults = DEFAULTS, **spec: Any
) -> Object:
    """Return the workload that the operator writes for `manifest`, or for a small resource with `spec`."""
    resource = manifest or gaudi_inference("tiny", **spec)
    metadata = {**resource["metadata"], "namespace": namespace, "uid": "u", "generation": 1}
    inference = read_inference({**resource, "metadata": metadata})
    revision = choose_desired_revision(inference, (), defaults)
    if revision.group:
        return leader_worker_set_manifest(inference.identity, revision, 1, {})
    return replica_set_manifest(inference.identity, revision.name, revision.template, 1, {})


RENDERED: dict[str, Object] = {
    "all that platforms ask for": {"pod": POD, "engine": {"env": ENV}},
    "a folder of the node": {"model": HOST, "pod": {"supplementalGroups": [3000]}},
    "a group of pods": GROUP,
    "a group of pods with a sidecar": {**GROUP, "pod": {"sidecars": [SIDE]}},
    "shared recipes": {"recipeCache": {}},
    "a certificate": {"server": {"tlsSecretName": "tls"}},
    **{f"within a limit {number}": spec for number, (_, spec) in enumerate(WITHIN)},
    **{f"beyond a limit {number}": spec for number, (_, spec, _) in enumerate(BEYOND)},
}


@pytest.mark.parametrize("case", RENDERED)
async def test_every_rendered_pod_is_accepted(api: KubeApi, applied: Applied, case: str) -> None:
    assert await applied(workload(api.namespace, **RENDERED[case])) is None


@pytest.mark.parametrize("case", OF_A_CLASS)
async def test_pod_with_settings_of_a_class_is_accepted(api: KubeApi, applied: Applied, case: str) -> None:
    assert await applied(workload(api.namespace, defaults=class_settings(**OF_A_CLASS[case]))) is None


async def test_every_example_and_page_is_accepted(api: KubeApi, applied: Applied) -> None:
    shown = {**manifests(), **{place: completed(each) for place, each in fragments().items()}}
    for place, manifest in shown.items():
        assert await applied(workload(api.namespace, manifest)) is None, place


@pytest.mark.parametrize("release", RELEASES)
async def test_pods_of_earlier_releases_are_accepted(api: KubeApi, applied: Applied, release: str) -> None:
    for manifest in recorded(release, api.namespace):
        if manifest["kind"] == "ReplicaSet":
            metadata = {**manifest["metadata"], "namespace": api.namespace}
            for owner in metadata["ownerReferences"]:
                owner["uid"] = "u"
            assert await applied({**manifest, "metadata": metadata}) is None


Change = Callable[[Object, Object], None]
"""Changes a pod spec, and its runtime container."""


def pod(**fields: Any) -> Change:
    return lambda spec, _: spec.update(fields)


def pod_security(**fields: Any) -> Change:
    return lambda spec, _: spec["securityContext"].update(fields)


def container(**fields: Any) -> Change:
    return lambda _, runtime: runtime.update(fields)


def security(**fields: Any) -> Change:
    return lambda _, runtime: runtime["securityContext"].update(fields)


def volume(read_only: bool = True, **source: Any) -> Change:
    def change(spec: Object, runtime: Object) -> None:
        spec["volumes"].append({"name": "more", **source})
        runtime["volumeMounts"].append({"name": "more", "mountPath": "/more", "readOnly": read_only})

    return change


def folder(path: str, read_only: bool = True, **more: Any) -> Change:
    return volume(read_only, hostPath={"path": path, **more})


def both(*changes: Change) -> Change:
    def change(spec: Object, runtime: Object) -> None:
        for each in changes:
            each(spec, runtime)

    return change


def token(source: Object) -> Change:
    return volume(projected={"sources": [source]})


FIELDS = "may create only pods with the fields that its own manifests have"
USERS = "may create only pods that have no token, run as another user than root"
RIGHTS = "may create only containers with a read-only root file system"
REACH = "may create only containers without ports of their node"
KINDS = "may mount only the kinds of volumes that its own manifests have"
FOLDERS = "may mount only folders of nodes that the chart's allowHostPath lists"
GROUPS = "may mount folders of nodes only into pods with the group 65532"
HTTP = {"path": "/", "port": 80}
REFUSED: dict[str, tuple[Change, str]] = {
    "root of the node": (folder("/"), FOLDERS),
    "folder whose name begins alike": (folder("/models-of-others"), FOLDERS),
    # The API server itself rejects '..' in a ReplicaSet. The refusal may therefore come from the API server or from the
    # policy.
    "folder that climbs": (folder("/models/../etc"), f"{FOLDERS}|must not contain '..'"),
    "folder that is written to": (folder("/models/a", read_only=False), FOLDERS),
    "folder that the kubelet creates": (folder("/models/a", type="DirectoryOrCreate"), FOLDERS),
    "folder with a group of others": (both(folder("/models/a"), pod_security(supplementalGroups=[6])), GROUPS),
    "folder with the group of the image": (
        both(folder("/models/a"), lambda spec, _: spec["securityContext"].pop("runAsGroup")),
        GROUPS,
    ),
    "root": (pod_security(runAsUser=0), USERS),
    "group of root": (pod_security(runAsGroup=0), USERS),
    "files of root": (pod_security(fsGroup=0), USERS),
    "further group of root": (pod_security(supplementalGroups=[0]), USERS),
    "user of the image": (pod_security(runAsNonRoot=False), USERS),
    "no seccomp": (pod_security(seccompProfile={"type": "Unconfined"}), USERS),
    "SELinux": (pod_security(seLinuxOptions={"type": "spc_t"}), USERS),
    "sysctls": (pod_security(sysctls=[{"name": "kernel.shm_rmid_forced", "value": "0"}]), USERS),
    "mounted token": (pod(automountServiceAccountToken=True), USERS),
    "projected token": (token({"serviceAccountToken": {"path": "token"}}), KINDS),
    "file system of the network": (volume(nfs={"server": "a", "path": "/"}), KINDS),
    "SYS_ADMIN": (security(capabilities={"drop": ["ALL"], "add": ["SYS_ADMIN"]}), RIGHTS),
    "capabilities of the image": (security(capabilities={}), RIGHTS),
    "SYS_NICE of another container": (
        pod(
            initContainers=[
                {
                    **SIDE,
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"], "add": ["SYS_NICE"]},
                    },
                }
            ]
        ),
        RIGHTS,
    ),
    "container without rights": (pod(initContainers=[SIDE]), RIGHTS),
    "root in a container": (security(runAsUser=0), RIGHTS),
    "privileged": (security(privileged=True, allowPrivilegeEscalation=True), RIGHTS),
    "escalation": (security(allowPrivilegeEscalation=True), RIGHTS),
    "written root": (security(readOnlyRootFilesystem=False), RIGHTS),
    "mount of proc": (security(procMount="Default"), RIGHTS),
    "users of the node": (pod(hostUsers=True), FIELDS),
    "hostPID": (pod(hostPID=True), FIELDS),
    "hostIPC": (pod(hostIPC=True), FIELDS),
    "hostNetwork": (pod(hostNetwork=True), FIELDS),
    "shared processes": (pod(shareProcessNamespace=True), FIELDS),
    "node by name": (pod(nodeName="control-plane"), FIELDS),
    "whole Secret": (container(envFrom=[{"secretRef": {"name": "a"}}]), f"{FIELDS}, and none with envFrom of"),
    "port of the node": (container(ports=[{"containerPort": 80, "hostPort": 80}]), REACH),
    "probe of another host": (container(livenessProbe={"httpGet": {**HTTP, "host": "169.254.169.254"}}), REACH),
    "hook to another host": (
        container(lifecycle={"preStop": {"httpGet": {**HTTP, "host": "169.254.169.254"}}}),
        REACH,
    ),
    "mount that reaches the node": (
        both(
            volume(emptyDir={}),
            lambda _, runtime: runtime["volumeMounts"][-1].update(mountPropagation="HostToContainer"),
        ),
        KINDS,
    ),
}


async def refusal(api: KubeApi, applied: Applied, case: str, kind: str) -> Row:
    """Return who refuses the workload of the test builder with the change of a case."""
    change, sentence = REFUSED[case]
    manifest = copied(workload(api.namespace, **({} if kind == "ReplicaSet" else GROUP)))
    assert await applied(manifest) is None
    spec = manifest["spec"]
    template = spec["template"] if kind == "ReplicaSet" else spec["leaderWorkerTemplate"]["workerTemplate"]
    change(template["spec"], template["spec"]["containers"][0])
    return refused_write(await applied(manifest), *sentence.split("|"))


@pytest.mark.parametrize("kind", ["ReplicaSet", "LeaderWorkerSet"])
async def test_forbidden_pods_are_refused_as_in_the_table(api: KubeApi, applied: Applied, kind: str) -> None:
    check(f"pods of a {kind}", {case: await refusal(api, applied, case, kind) for case in REFUSED})


async def test_leader_template_of_a_group_is_also_validated(api: KubeApi, applied: Applied) -> None:
    manifest = copied(workload(api.namespace, **GROUP))
    manifest["spec"]["leaderWorkerTemplate"]["leaderTemplate"]["spec"]["hostPID"] = True
    assert f"{FIELDS}, and none with hostPID." in (await applied(manifest) or "")


async def test_workload_with_a_removed_folder_can_only_be_scaled_down(api: KubeApi, applied: Applied) -> None:
    owner = await api.create(gaudi_inference("tiny"))
    manifest = copied(workload(api.namespace))
    # Use the UID of an existing owner. Otherwise the garbage collector would delete the workload.
    manifest["metadata"]["ownerReferences"][0]["uid"] = owner["metadata"]["uid"]
    folder("/removed")(manifest["spec"]["template"]["spec"], manifest["spec"]["template"]["spec"]["containers"][0])
    assert FOLDERS in (await applied(manifest) or "")
    path = api.path(manifest["kind"], manifest["metadata"]["name"])
    headers = {"Content-Type": "application/apply-patch+yaml"}
    await api.send("PATCH", path, manifest, headers=headers, params={"fieldManager": FIELD_MANAGER})
    manifest["spec"]["replicas"] = 0
    assert await applied(manifest) is None
    manifest["spec"]["template"]["metadata"]["annotations"]["changed"] = "yes"
    assert FOLDERS in (await applied(manifest) or "")


async def test_largest_pod_is_validated_within_the_cel_cost_limit(api: KubeApi, applied: Applied) -> None:
    env = [{"name": f"VARIABLE_{number}", "value": "x"} for number in range(32)]
    volumes = [
        {"name": f"v{number}", "projected": {"sources": [{"configMap": {"name": "a"}}] * 8}} for number in range(16)
    ]
    mounts = [{"name": f"v{number}", "mountPath": f"/v/{number}"} for number in range(16)]
    sides = [{**SIDE, "name": f"s{number}", "env": env, "volumeMounts": mounts} for number in range(8)]
    source = {"hostPath": {"path": "/models" + "/a" * 500}}
    adapters = [{"name": f"a{number}", "source": source} for number in range(32)]
    spec = {
        **GROUP,
        "engine": {"name": "vllm", "env": env},
        "model": {"source": {"persistentVolumeClaim": None, **source}, "lora": {"adapters": adapters}},
        "pod": {
            "volumes": volumes,
            "volumeMounts": mounts,
            "initContainers": sides[:4],
            "sidecars": sides[4:],
            "supplementalGroups": [3000] * 16,
        },
    }
    assert await applied(workload(api.namespace, **spec)) is None
