"""Addresses, kubeconfig, configuration files and command lines."""

import base64
import ipaddress
import itertools
import json
import tomllib
from pathlib import Path

import pytest
import yaml

from localcluster.control_plane import components
from localcluster.control_plane.kubeconfig import write_kubeconfig
from localcluster.node import node_config
from localcluster.sandbox.addresses import SLOTS, Addresses

RUN_DIR = Path("/run-dir")


def test_ranges_of_all_slots_are_disjoint() -> None:
    ranges = [
        ipaddress.ip_network(text)
        for slot in range(SLOTS)
        for text in (Addresses(slot).pods, Addresses(slot).services, f"10.200.{slot}.0/30")
    ]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(ranges, 2))


@pytest.mark.parametrize("slot", range(SLOTS))
def test_dns_and_api_service_addresses_are_in_the_service_range(slot: int) -> None:
    addresses = Addresses(slot)
    services = ipaddress.ip_network(addresses.services)
    assert ipaddress.ip_address(addresses.kubernetes_ip) == services[1]
    assert ipaddress.ip_address(addresses.dns_ip) in services


def test_loopback_address_has_the_last_three_octets_of_the_node() -> None:
    assert Addresses(node_ip="10.201.7.9").loopback == "127.201.7.9"


def test_link_name_fits_the_kernels_limit() -> None:
    assert len(Addresses(SLOTS - 1).link) <= 15


def test_kubeconfig_embeds_its_certificates(tmp_path: Path) -> None:
    for name in ("ca.crt", "admin.crt", "admin.key"):
        (tmp_path / name).write_text(name)
    write_kubeconfig(tmp_path / "kubeconfig", "https://10.200.0.1:6443", tmp_path, "admin", "test")
    config = yaml.safe_load((tmp_path / "kubeconfig").read_text())
    assert base64.b64decode(config["users"][0]["user"]["client-key-data"]) == b"admin.key"
    assert config["clusters"][0]["cluster"]["server"] == "https://10.200.0.1:6443"
    assert (tmp_path / "kubeconfig").stat().st_mode & 0o077 == 0


def test_containerd_uses_the_given_image_store() -> None:
    config = tomllib.loads(node_config.containerd_config(RUN_DIR, Path('/with "quotes"')))
    assert config["root"] == '/with "quotes"'
    assert config["plugins"]["io.containerd.cri.v1.runtime"]["restrict_oom_score_adj"] is True


def test_pods_resolve_only_cluster_names() -> None:
    config = yaml.safe_load(node_config.kubelet_config(RUN_DIR, Addresses(3)))
    assert (config["clusterDNS"], config["resolvConf"]) == (["10.96.3.10"], "")


def test_full_disk_neither_deletes_images_nor_evicts_pods() -> None:
    config = yaml.safe_load(node_config.kubelet_config(RUN_DIR, Addresses()))
    assert config["imageGCHighThresholdPercent"] == 100
    assert {config["evictionHard"][signal] for signal in ("nodefs.available", "imagefs.available")} == {"0%"}


def test_kubelet_accepts_both_cgroup_versions() -> None:
    config = yaml.safe_load(node_config.kubelet_config(RUN_DIR, Addresses()))
    assert (config["failCgroupV1"], config["cgroupDriver"], config["cgroupRoot"]) == (
        False,
        "cgroupfs",
        "/gaudi-node-0",
    )


def test_pod_addresses_are_kept_in_the_run_folder() -> None:
    network = json.loads(node_config.cni_config(RUN_DIR, Addresses()))["plugins"][0]["ipam"]
    assert network["dataDir"].startswith(str(RUN_DIR))


def test_proxy_does_not_change_the_hosts_conntrack_settings() -> None:
    config = yaml.safe_load(node_config.kube_proxy_config(RUN_DIR, Addresses(), "n"))
    assert config["conntrack"] == {"maxPerCore": 0}


def test_components_listen_only_on_node_and_loopback_addresses() -> None:
    addresses = Addresses(2)
    for command in (
        components.etcd(RUN_DIR, addresses),
        components.apiserver(RUN_DIR, addresses),
        components.controller_manager(RUN_DIR, addresses),
        components.scheduler(RUN_DIR, addresses),
    ):
        listening = [flag for flag in command if "bind-address" in flag or "listen" in flag]
        assert listening
        assert all(addresses.node_ip in flag or addresses.loopback in flag for flag in listening)
