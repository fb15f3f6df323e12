"""Configuration files of containerd, CNI, kubelet and kube-proxy."""

import json
from pathlib import Path

import yaml

from localcluster.sandbox.addresses import Addresses

PAUSE_IMAGE = "localhost/busybox:1"


def containerd_config(run_dir: Path, store: Path) -> str:
    """Return the configuration of containerd, with its images in `store`. Its sockets are in the sandbox's own /run.

    `restrict_oom_score_adj` is set, because containers would fail without CAP_SYS_RESOURCE, which the kernel requires
    for a lower score.
    """
    return f"""\
version = 3
root = {json.dumps(str(store))}
state = "/run/containerd"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      SystemdCgroup = false
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = {json.dumps(str(run_dir / "cni"))}
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{PAUSE_IMAGE}"
"""


def cni_config(run_dir: Path, addresses: Addresses) -> str:
    """Return a CNI configuration with a routed link per pod, which needs no br_netfilter for Services."""
    ipam = {
        "type": "host-local",
        "dataDir": str(run_dir / "addresses"),
        "ranges": [[{"subnet": addresses.pods}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    plugins = [{"type": "ptp", "ipam": ipam}, {"type": "portmap", "capabilities": {"portMappings": True}}]
    return json.dumps({"cniVersion": "1.0.0", "name": "pods", "plugins": plugins})


def kubelet_config(run_dir: Path, addresses: Addresses) -> str:
    """Return the kubelet's configuration. An empty `resolvConf` lets pods resolve only names of the cluster."""
    pki = run_dir / "pki"
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(pki / "kubelet.crt"),
        "tlsPrivateKeyFile": str(pki / "kubelet.key"),
        "address": addresses.node_ip,
        "healthzBindAddress": addresses.loopback,
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{addresses.cgroup}",
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        # Neither delete images nor evict pods when the disk of the machine is nearly full. Images are loaded and not
        # pulled, so the kubelet could not get a deleted image back.
        "evictionHard": {"nodefs.available": "0%", "imagefs.available": "0%", "memory.available": "100Mi"},
        "imageGCHighThresholdPercent": 100,
        "clusterDNS": [addresses.dns_ip],
        "clusterDomain": "cluster.local",
        "resolvConf": "",
        "serializeImagePulls": False,
        "maxPods": 250,
        "podLogsDir": str(run_dir / "pod-logs"),
        "volumePluginDir": str(run_dir / "volume-plugins"),
    }
    return yaml.safe_dump(config, sort_keys=False)


def kube_proxy_config(run_dir: Path, addresses: Addresses, node: str) -> str:
    """Return kube-proxy's configuration. It does not change conntrack limits, which apply to the whole machine."""
    config = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(run_dir / "kube-proxy.kubeconfig")},
        "mode": "iptables",
        "iptables": {"minSyncPeriod": "100ms"},  # with the default, a new Service takes up to a second
        "clusterCIDR": addresses.pods,
        "hostnameOverride": node,
        "healthzBindAddress": f"{addresses.loopback}:10256",
        "metricsBindAddress": f"{addresses.loopback}:10249",
        "conntrack": {"maxPerCore": 0},
    }
    return yaml.safe_dump(config, sort_keys=False)
