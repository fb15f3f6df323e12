"""The parts of a node in addition to the control plane: containerd, kubelet, kube-proxy, cards and cluster DNS."""

import socket
import struct
from collections.abc import Callable
from pathlib import Path

from localcluster.control_plane import components
from localcluster.control_plane.control_plane import ControlPlane
from localcluster.errors import LocalClusterError
from localcluster.images import archive
from localcluster.node import node_config
from localcluster.programs import build
from localcluster.sandbox import cgroups
from localcluster.sandbox.addresses import Addresses

CARDS = "8"
_DNS_MANIFEST = Path(__file__).parents[1] / "manifests" / "coredns.yaml"
_DNS_NAME = "kubernetes.default.svc.cluster.local"

Ctr = Callable[..., str]


def start_runtime(plane: ControlPlane, run_dir: Path, store: Path) -> None:
    """Start containerd. It needs no control plane, so both start concurrently."""
    (run_dir / "containerd.toml").write_text(node_config.containerd_config(run_dir, store))
    (run_dir / "cni").mkdir()
    (run_dir / "cni" / "10-pods.conflist").write_text(node_config.cni_config(run_dir, plane.addresses))
    cgroups.prepare(plane.addresses.cgroup)
    plane.launch(components.containerd(run_dir), build.containerd())


def await_runtime(plane: ControlPlane, ctr: Ctr) -> None:
    """Wait for containerd, and import the images that every node needs."""
    plane.wait(lambda: _is_responding(ctr), "containerd to answer")
    _delete_containers(ctr)
    delete_replaced_images(ctr)
    loaded_images = ctr("images", "ls", "-q").split()
    for image, file in ((node_config.PAUSE_IMAGE, archive.busybox()), (archive.COREDNS_IMAGE, archive.coredns())):
        if image not in loaded_images:
            ctr("images", "import", "--local", str(file))


def join(plane: ControlPlane, run_dir: Path, name: str) -> None:
    """Make the node Ready with its cards, and wait until DNS answers."""
    _write_identities(plane, run_dir, name)
    plane.launch(components.kubelet(run_dir, plane.addresses, name))
    plane.launch(components.kube_proxy(run_dir))
    plane.kubectl("apply", "-f", "-", stdin=_dns_manifest(plane.addresses))
    plane.wait(lambda: plane.api.has_condition(f"/api/v1/nodes/{name}", "Ready"), f"node {name} to be Ready")
    plane.api.patch(f"/api/v1/nodes/{name}/status", card_patch())
    plane.wait(lambda: resolves(_DNS_NAME, plane.addresses.dns_ip), "cluster DNS to answer")


def card_patch() -> list[dict[str, str]]:
    """Return the JSON patch that adds cards to a node's status.

    The patch also sets the allocatable cards, because the kubelet would set them only at the next sync, up to 10 s
    later.
    """
    fields = ("capacity", "allocatable")
    return [{"op": "add", "path": f"/status/{field}/habana.ai~1gaudi", "value": CARDS} for field in fields]


def resolves(name: str, server: str) -> bool:
    """Return True if the DNS `server` has an address for `name`. This machine sends the request to the Service."""
    question = b"".join(struct.pack("B", len(label)) + label.encode() for label in name.split(".")) + b"\0"
    query = struct.pack(">6H", 1, 0x0100, 1, 0, 0, 0) + question + struct.pack(">2H", 1, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(0.3)
        try:
            client.connect((server, 53))
            client.send(query)
            answer_count: int = struct.unpack(">6H", client.recv(512)[:12])[3]
        except OSError:
            return False
    return answer_count > 0


def _write_identities(plane: ControlPlane, run_dir: Path, name: str) -> None:
    """Write certificates, kubeconfigs and configurations of kubelet and kube-proxy.

    The name in the kubelet's certificate determines its permissions. The kubelet also serves with this certificate.
    """
    plane.authority.issue("kubelet", f"system:node:{name}", "system:nodes", (name, plane.addresses.node_ip))
    plane.authority.issue("kube-proxy", "system:kube-proxy")
    for user in ("kubelet", "kube-proxy"):
        plane.write_user_kubeconfig(user, run_dir / f"{user}.kubeconfig")
    (run_dir / "kubelet.yaml").write_text(node_config.kubelet_config(run_dir, plane.addresses))
    (run_dir / "kube-proxy.yaml").write_text(node_config.kube_proxy_config(run_dir, plane.addresses, name))


def _is_responding(ctr: Ctr) -> bool:
    try:
        ctr("version")
    except LocalClusterError:
        return False
    return True


def _delete_containers(ctr: Ctr) -> None:
    """Delete the records of containers of an earlier node, because the image store outlives nodes."""
    containers = ctr("containers", "ls", "-q").split()
    if containers:
        ctr("containers", "rm", *containers)


def delete_replaced_images(ctr: Ctr) -> None:
    """Delete the images that lost their names to newer images. Otherwise, the image store would grow with every build.

    containerd has one record for each name of an image, and one for its ID.
    """
    rows = [line.split() for line in ctr("images", "ls").splitlines()[1:]]
    digests = {name: digest for name, _, digest, *_ in rows}
    named_digests = {digest for name, digest in digests.items() if not name.startswith("sha256:")}
    replaced_names = [name for name, digest in digests.items() if digest not in named_digests]
    if replaced_names:
        ctr("images", "rm", "--sync", *replaced_names)


def _dns_manifest(addresses: Addresses) -> str:
    text = _DNS_MANIFEST.read_text()
    return text.replace("DNS_ADDRESS", addresses.dns_ip).replace("COREDNS_IMAGE", archive.COREDNS_IMAGE)
