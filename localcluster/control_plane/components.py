"""The command lines of the components, with the reasons for flags that are not obvious."""

from pathlib import Path

from localcluster.sandbox.addresses import Addresses

_FAST_CLIENT = ("--kube-api-qps=500", "--kube-api-burst=1000")  # the default of 20 delays the creation of pods
# Only one instance of each component runs, so there is no leader election.
_ALONE = ("--leader-elect=false", *_FAST_CLIENT)

_AUDIT = """apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
"""
"""The user, object and status code of each request, without bodies."""


def etcd(run_dir: Path, addresses: Addresses) -> list[str]:
    """Return the command of etcd. It does not sync to disk, because the state is deleted with the run folder."""
    client_url = f"http://{addresses.loopback}:2379"
    return [
        "etcd",
        f"--data-dir={run_dir / 'etcd'}",
        f"--listen-client-urls={client_url}",
        f"--advertise-client-urls={client_url}",
        f"--listen-peer-urls=http://{addresses.loopback}:2380",
        f"--initial-advertise-peer-urls=http://{addresses.loopback}:2380",
        f"--initial-cluster=default=http://{addresses.loopback}:2380",
        "--unsafe-no-fsync",
    ]


def apiserver(run_dir: Path, addresses: Addresses, *, audited: bool = False) -> list[str]:
    """Return the command of the API server, which connects to kubelets by address because DNS has no node names."""
    pki = run_dir / "pki"
    policy = run_dir / "audit.yaml"
    if audited:
        policy.write_text(_AUDIT)
    audit = (f"--audit-policy-file={policy}", f"--audit-log-path={run_dir / 'audit.log'}", "--audit-log-maxsize=4000")
    return [
        "kube-apiserver",
        f"--etcd-servers=http://{addresses.loopback}:2379",
        f"--bind-address={addresses.node_ip}",
        f"--advertise-address={addresses.node_ip}",
        f"--service-cluster-ip-range={addresses.services}",
        f"--client-ca-file={pki / 'ca.crt'}",
        f"--tls-cert-file={pki / 'apiserver.crt'}",
        f"--tls-private-key-file={pki / 'apiserver.key'}",
        f"--service-account-key-file={pki / 'service-account.key'}",
        f"--service-account-signing-key-file={pki / 'service-account.key'}",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged",
        f"--kubelet-client-certificate={pki / 'kubelet-client.crt'}",
        f"--kubelet-client-key={pki / 'kubelet-client.key'}",
        f"--kubelet-certificate-authority={pki / 'ca.crt'}",
        "--kubelet-preferred-address-types=InternalIP",
        *_front_proxy_flags(pki),
        *(audit if audited else ()),
    ]


def _front_proxy_flags(pki: Path) -> tuple[str, ...]:
    """Return the flags with which the API server authenticates to aggregated APIs and sends the name of the user."""
    return (
        f"--requestheader-client-ca-file={pki / 'front-proxy' / 'ca.crt'}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={pki / 'front-proxy' / 'client.crt'}",
        f"--proxy-client-key-file={pki / 'front-proxy' / 'client.key'}",
    )


def controller_manager(run_dir: Path, addresses: Addresses) -> list[str]:
    """Return the command of all controllers. As in production, each controller uses its own service account."""
    return [
        "kube-controller-manager",
        f"--kubeconfig={run_dir / 'controller-manager.kubeconfig'}",
        f"--bind-address={addresses.loopback}",
        f"--service-account-private-key-file={run_dir / 'pki' / 'service-account.key'}",
        f"--root-ca-file={run_dir / 'pki' / 'ca.crt'}",
        "--use-service-account-credentials=true",
        *_ALONE,
    ]


def scheduler(run_dir: Path, addresses: Addresses) -> list[str]:
    """Return the command of the scheduler."""
    return [
        "kube-scheduler",
        f"--kubeconfig={run_dir / 'scheduler.kubeconfig'}",
        f"--bind-address={addresses.loopback}",
        *_ALONE,
    ]


def containerd(run_dir: Path) -> list[str]:
    """Return the command of the container runtime."""
    return ["containerd", f"--config={run_dir / 'containerd.toml'}"]


def kubelet(run_dir: Path, addresses: Addresses, node: str) -> list[str]:
    """Return the command of the kubelet."""
    return [
        "kubelet",
        f"--kubeconfig={run_dir / 'kubelet.kubeconfig'}",
        f"--config={run_dir / 'kubelet.yaml'}",
        f"--root-dir={run_dir / 'kubelet'}",
        f"--hostname-override={node}",
        f"--node-ip={addresses.node_ip}",
    ]


def kube_proxy(run_dir: Path) -> list[str]:
    """Return the command of the proxy that implements Service addresses."""
    return ["kube-proxy", f"--config={run_dir / 'kube-proxy.yaml'}"]
