"""`kubectl gaudi hardware-report`: test the cards of a node in a pod that is similar to the pods of a resource.

The pod runs `gaudi-runtime hardware-report` on free cards (docs/how-to/hardware.md). The command reads the report from
the log of the pod, and adds facts about the node.
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import ValidationError

from gaudi_operator.api.v1alpha1.resource import SINGULAR
from gaudi_operator.cli.kubectl.options import CommandError, SelectedResource, with_resource
from gaudi_operator.core.names import CONTAINER, GROUP_SIZE_ANNOTATION
from gaudi_operator.core.observed import Manifest
from gaudi_runtime.contract.ports import CACHE_PATH, CONFIG_PATH, WARMUP_PATH
from gaudi_runtime.contract.report import WarmupReport
from gaudi_runtime.contract.text import make_one_line
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.hardware.report import HardwareReport

if TYPE_CHECKING:
    from rich.console import Console

LOOK_SECONDS = 2.0
MANAGED_BY = "kubectl-gaudi"
KEPT = (
    "affinity",
    "imagePullSecrets",
    "initContainers",
    "nodeSelector",
    "priorityClassName",
    "resourceClaims",
    "runtimeClassName",
    "schedulerName",
    "securityContext",
    "serviceAccountName",
    "tolerations",
    "volumes",
)
"""The fields to copy from a pod of the resource: placement, permissions and files, without the node."""
ENDED = ("Succeeded", "Failed")

Output = Annotated[Path, typer.Option("-o", "--output", help="File that the report is written to.")]
Timeout = Annotated[int, typer.Option(min=1, help="Timeout of the trial, in seconds.")]


@with_resource
def hardware_report(
    selection: SelectedResource, output: Output = Path("hardware-report.json"), timeout: Timeout = 7200
) -> None:
    """Test image, model and configuration on free cards of the cluster, and write one report file.

    The resource and its pods are not changed. The exit code is 0 if all required proofs succeeded.
    """
    from rich.console import Console

    console = Console(stderr=True)
    pod = trial_pod(selection.name, selection.cluster.list_pods(selection.name), timeout)
    pod_name = selection.cluster.create_pod(selection.name, pod)
    console.print(f"pod/{pod_name} created")
    try:
        ended_pod = _wait_for_end(selection, pod_name, timeout, console)
        report = read_report(selection.cluster.read_pod_log(selection.name, pod_name))
    finally:
        with suppress(ConfigError):  # the pod may be gone already
            selection.cluster.delete_pod(selection.name, pod_name)
    report = report.model_copy(
        update={"cluster": cluster_facts(ended_pod, selection.cluster.read_node(ended_pod["spec"].get("nodeName", "")))}
    )
    output.write_text(report.model_dump_json(by_alias=True, exclude_none=True, indent=1) + "\n")
    for proof in report.proofs:
        console.print(make_one_line(f"{proof.outcome:<10} {proof.name}: {proof.evidence}"), markup=False)
    if report.ended:
        console.print(make_one_line(f"The trial ended early: {report.ended}"), markup=False)
    typer.echo(f"{output} written")
    if not report.has_passed:
        raise typer.Exit(1)


def trial_pod(name: str, pods: Sequence[Manifest], seconds: int) -> Manifest:
    """Return a test pod for a hardware report. The pod is similar to the newest pod, with a deadline of `seconds`.

    Raises CommandError if the resource has no pods, or if its replicas are groups of pods.
    """
    if not pods:
        raise CommandError(
            f'{SINGULAR} "{name}" has no pod from which image, model and node could be copied. Set its '
            "replicas to 1 or more"
        )
    newest_pod = max(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
    if GROUP_SIZE_ANNOTATION in (newest_pod["metadata"].get("annotations") or {}):
        raise CommandError(f'the replicas of {SINGULAR} "{name}" are groups of pods, which a single pod cannot test')
    spec = newest_pod["spec"]
    serving = next(container for container in spec["containers"] if container["name"] == CONTAINER)
    trial_container = {
        key: value for key, value in serving.items() if key not in ("livenessProbe", "readinessProbe", "lifecycle")
    }
    arguments = ["hardware-report", "--config", CONFIG_PATH, "--folder", CACHE_PATH, "--output", "-"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        # Do not copy the labels of the resource's pods. Otherwise Services would select this pod, and a workload would
        # count this pod as one of its replicas.
        "metadata": {
            "generateName": f"{name[:200]}-hardware-",
            "labels": {"app.kubernetes.io/managed-by": MANAGED_BY},
        },
        "spec": {
            **{key: spec[key] for key in KEPT if key in spec},
            "containers": [{**trial_container, "args": arguments}],
            "restartPolicy": "Never",
            "activeDeadlineSeconds": seconds,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
        },
    }


def read_report(log: str) -> HardwareReport:
    """Return the last hardware report in the log of a test pod.

    Raises CommandError with the last line of the log if there is no report.
    """
    for line in reversed(log.splitlines()):
        with suppress(ValidationError):
            return HardwareReport.model_validate_json(line)
    last_line = next((line for line in reversed(log.splitlines()) if line.strip()), "nothing")
    raise CommandError(f"the trial wrote no report. The end of its log: {last_line[:500]}")


def cluster_facts(pod: Manifest, node: Manifest) -> dict[str, str]:
    """Return facts about the cluster for the hardware report. `node` is empty if the user may not read nodes."""
    node_info: dict[str, Any] = (node.get("status") or {}).get("nodeInfo") or {}
    card_counts = {
        key: value for key, value in ((node.get("status") or {}).get("allocatable") or {}).items() if "gaudi" in key
    }
    image = next((container["image"] for container in pod["spec"]["containers"] if container["name"] == CONTAINER), "")
    versions = {
        key: str(node_info[key])
        for key in ("kubeletVersion", "kernelVersion", "osImage", "containerRuntimeVersion")
        if key in node_info
    }
    return {"image": image, **versions, **{key: str(value) for key, value in card_counts.items()}}


def why_not_started(pod: Manifest) -> str:
    """Return the reason why the test pod has not started; empty if the pod has started."""
    status = pod.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] != "True":
            return str(condition.get("message") or condition.get("reason") or "the pod has no node yet")
    for container_status in status.get("containerStatuses") or ():
        if waiting_state := (container_status.get("state") or {}).get("waiting"):
            return ": ".join(str(waiting_state[key]) for key in ("reason", "message") if waiting_state.get(key))
    return ""


def _wait_for_end(selection: SelectedResource, name: str, seconds: int, console: "Console") -> Manifest:
    """Print the progress of the pod until the pod ends, and return the pod. Raises CommandError on timeout."""
    deadline, last_message = time.monotonic() + seconds, ""
    while time.monotonic() < deadline:
        pod = selection.cluster.read_pod(selection.name, name)
        if pod["status"].get("phase") in ENDED:
            return pod
        message = why_not_started(pod) or _read_progress(selection, name) or last_message
        if message != last_message:
            console.print(make_one_line(message), markup=False)
            last_message = message
        time.sleep(LOOK_SECONDS)
    raise CommandError(f"pod {name} has not ended after {seconds} s ({last_message or 'no message'}) and is deleted")


def _read_progress(selection: SelectedResource, pod_name: str) -> str:
    """Return the warm-up progress of the pod; empty if the pod does not answer."""
    try:
        report = WarmupReport.model_validate_json(selection.cluster.query_pod(selection.name, pod_name, WARMUP_PATH))
    except (ConfigError, ValidationError):
        return ""
    prompt, decode = report.prompt, report.decode
    return f"{report.phase}: prompt {prompt.captured}/{prompt.planned}, decode {decode.captured}/{decode.planned}"
