"""The functions of a running node."""

import json
import os
import signal
import subprocess
from pathlib import Path

import httpx
import pytest

from localcluster import LocalClusterError, Node
from localcluster.node import worker
from localcluster.programs import build
from localcluster.sandbox import cgroups
from localcluster.sandbox.processes import wait_until

pytestmark = pytest.mark.timeout(120)
IMAGE = "localhost/busybox:1"
CLUSTER_DNS = ("--namespace", "kube-system", "--selector", "k8s-app=kube-dns")


def phase_of(node: Node, pod: str) -> str:
    return node.kubectl("get", "pod", pod, "-o", "jsonpath={.status.phase}")


def test_node_reports_its_version_and_eight_cards(node: Node) -> None:
    status = json.loads(node.kubectl("get", "node", "used", "-o", "json"))["status"]
    assert status["nodeInfo"]["kubeletVersion"] == f"v{build.KUBERNETES}"
    assert (status["capacity"]["habana.ai/gaudi"], status["allocatable"]["habana.ai/gaudi"]) == ("8", "8")


def test_aggregated_api_servers_can_read_the_client_authority(node: Node) -> None:
    name = "extension-apiserver-authentication"
    command = ("get", "configmap", name, "--namespace", "kube-system", "--output", "yaml")
    wait_until(lambda: "requestheader-client-ca-file" in node.kubectl(*command), "the authority's name", timeout=30)


def test_pod_resolves_a_service_and_reaches_it_by_name(node: Node, pod: str) -> None:
    assert "hello from web" in node.kubectl("exec", pod, "--", "wget", "-q", "-O-", "http://front/index.html")


def test_pod_resolves_the_full_name_of_another_namespace(node: Node, pod: str) -> None:
    assert "Address" in node.kubectl("exec", pod, "--", "nslookup", "kube-dns.kube-system.svc.cluster.local")


def test_name_outside_the_cluster_is_not_resolved(node: Node, pod: str) -> None:
    answer = node.kubectl("exec", pod, "--", "sh", "-c", "nslookup elsewhere.example. || true")
    assert "can't find elsewhere.example." in answer


def dns_process(node: Node) -> int:
    """Return the DNS process of this node. Other nodes of this machine have their own DNS processes."""
    uid = node.kubectl("get", "pod", *CLUSTER_DNS, "-o", "jsonpath={..metadata.uid}")
    pod = next(cgroups.ROOT.rglob(f"pod{uid}"))
    processes = {int(pid) for file in pod.rglob("cgroup.procs") for pid in file.read_text().split()}
    [process] = [pid for pid in processes if "coredns" in Path(f"/proc/{pid}/comm").read_text()]
    return process


def test_request_waits_for_unready_dns_instead_of_failing(node: Node, pod: str) -> None:
    """On a busy machine, cluster DNS misses readiness probes.

    It must still answer, because there is no other replica.
    """
    unready = ("get", "pod", *CLUSTER_DNS, "-o", "jsonpath={..status.conditions[?(@.type=='Ready')].status}")
    kubectl = [str(build.kubernetes() / "kubectl"), "--kubeconfig", str(node.kubeconfig)]
    asking = [*kubectl, "exec", pod, "--", "wget", "-q", "-O-", "http://front/index.html"]
    process = dns_process(node)
    os.kill(process, signal.SIGSTOP)
    try:
        wait_until(lambda: node.kubectl(*unready) == "False", "cluster DNS to miss its probes", 30)
        with subprocess.Popen(asking, stdout=subprocess.PIPE, text=True) as request:
            with pytest.raises(subprocess.TimeoutExpired):  # a refusal would end it
                request.wait(timeout=2)
            os.kill(process, signal.SIGCONT)
            assert request.communicate()[0] == "hello from web\n"
    finally:
        os.kill(process, signal.SIGCONT)


def test_exec_returns_the_exit_code(node: Node, pod: str) -> None:
    with pytest.raises(LocalClusterError, match="exit code 7"):
        node.kubectl("exec", pod, "--", "sh", "-c", "exit 7")


def test_exec_forwards_standard_input(node: Node, pod: str) -> None:
    assert node.kubectl("exec", "-i", pod, "--", "cat", stdin="typed") == "typed"


def test_logs_return_the_output_of_the_container(node: Node, pod: str) -> None:
    assert node.kubectl("logs", pod) == "serving\n"


def test_port_forward_carries_a_request(node: Node, pod: str) -> None:
    command = [str(build.kubernetes() / "kubectl"), "--kubeconfig", str(node.kubeconfig), "port-forward"]
    with subprocess.Popen([*command, "service/front", ":80"], stdout=subprocess.PIPE, text=True) as forward:
        assert forward.stdout
        port = forward.stdout.readline().split("->")[0].rpartition(":")[2].strip()
        assert httpx.get(f"http://127.0.0.1:{port}/index.html").text == "hello from web\n"
        forward.terminate()


def test_host_can_connect_to_pods_and_services(node: Node, pod: str) -> None:
    pod_ip = node.kubectl("get", "pod", pod, "-o", "jsonpath={.status.podIP}")
    service_ip = node.kubectl("get", "service", "front", "-o", "jsonpath={.spec.clusterIP}")
    for host in (f"{pod_ip}:8080", service_ip):
        assert httpx.get(f"http://{host}/index.html", trust_env=False).text == "hello from web\n"


def test_pod_cannot_reach_hosts_outside_the_machine(node: Node, pod: str) -> None:
    with pytest.raises(LocalClusterError, match="exit code"):
        node.kubectl("exec", pod, "--", "nc", "-w", "2", "192.0.2.1", "80")


def test_pod_with_more_cards_than_the_node_stays_pending(node: Node, pod: str) -> None:
    container = {"name": "more", "image": IMAGE, "resources": {"limits": {"habana.ai/gaudi": "1"}}}
    overrides = json.dumps({"spec": {"containers": [container]}})
    node.kubectl("run", "more", f"--image={IMAGE}", f"--overrides={overrides}")
    try:
        reason = "jsonpath={.status.conditions[?(@.type=='PodScheduled')].message}"
        wait_until(
            lambda: "Insufficient habana.ai/gaudi" in node.kubectl("get", "pod", "more", "-o", reason),
            "the scheduler to refuse the pod",
            20,
        )
        assert phase_of(node, "more") == "Pending"
    finally:
        node.kubectl("delete", "pod", "more", "--wait=false")


def test_folder_image_is_mounted_as_a_volume(node: Node, tmp_path: Path) -> None:
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "model.txt").write_text("0.1 0.2")
    node.load_folder(tmp_path / "weights", "localhost/model:test")  # other content under the same name
    node.load_folder(tmp_path, "localhost/model:test")
    spec = {
        "restartPolicy": "Never",
        "containers": [
            {
                "name": "reader",
                "image": IMAGE,
                "imagePullPolicy": "Never",
                "command": ["cat", "/model/weights/model.txt"],
                "volumeMounts": [{"name": "model", "mountPath": "/model"}],
            }
        ],
        "volumes": [{"name": "model", "image": {"reference": "localhost/model:test", "pullPolicy": "Never"}}],
    }
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "reader"}, "spec": spec}
    node.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    wait_until(lambda: phase_of(node, "reader") in ("Succeeded", "Failed"), "the reader to end", 30)
    assert node.kubectl("logs", "reader") == "0.1 0.2"


def test_replaced_image_is_deleted_and_its_successor_stays(node: Node, tmp_path: Path) -> None:
    tag = "localhost/replaced:test"
    manifests = []
    for content in ("first", "second"):
        (tmp_path / "model.txt").write_text(content)
        node.load_folder(tmp_path, tag)
        manifests += node.ctr("images", "ls", f"name=={tag}").split("\n")[1].split()[2:3]
    worker.delete_replaced_images(node.ctr)
    blobs = node.ctr("content", "ls", "-q").split()
    assert [manifest in blobs for manifest in manifests] == [False, True]


def test_restarted_api_server_keeps_pods_running(node: Node, pod: str) -> None:
    before = node.kubectl("get", "pod", pod, "-o", "jsonpath={.status.containerStatuses[0].containerID}")
    node.restart_apiserver()
    after = node.kubectl("get", "pod", pod, "-o", "jsonpath={.status.containerStatuses[0].containerID}")
    assert before == after
    assert node.kubectl("exec", pod, "--", "echo", "still here") == "still here\n"


def test_second_node_in_the_same_folder_is_refused(node: Node) -> None:
    with pytest.raises(LocalClusterError, match=r"A node is already running in .*: stop it first"):
        Node(node.run_dir, "again").start()
