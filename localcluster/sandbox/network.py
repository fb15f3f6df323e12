"""The network of a sandbox and of a test process. It needs only the program `ip`."""

import ctypes
import os
import subprocess

from localcluster.errors import LocalClusterError
from localcluster.programs.debian import environment
from localcluster.sandbox.addresses import Addresses
from localcluster.sandbox.processes import wait_until
from localcluster.sandbox.sandbox import Sandbox

_CLONE_NEWNET = 0x40000000
POD_RANGE = "10.250.0.0/16"


def enter_network_namespace() -> None:
    """Move this thread, and all threads and processes that it starts later, into an empty network namespace.

    Every address of 10.250.0.0/16 is local in this namespace, so a server may listen on any of them. They are valid in
    EndpointSlices and pod statuses, where the API server refuses loopback addresses. Call this function in the main
    thread, after tools(), which may download, and before any server listens. Raises LocalClusterError without
    permission.
    """
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(_CLONE_NEWNET) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise LocalClusterError(f"The kernel refuses a network namespace ({reason}): run as root.")
    ip("link", "set", "lo", "up")
    ip("route", "add", "local", POD_RANGE, "dev", "lo")


def add_loopback_address(address: str) -> bool:
    """Add the address to `lo`. Returns False if `lo` had the address before."""
    ip("link", "set", "lo", "up")
    if f" {address}/32 " in ip("-oneline", "address", "show", "dev", "lo"):
        return False
    ip("address", "add", f"{address}/32", "dev", "lo")
    return True


def remove_loopback_address(address: str) -> None:
    """Remove the address from `lo`."""
    ip("address", "del", f"{address}/32", "dev", "lo")


def connect(sandbox: Sandbox, addresses: Addresses) -> None:
    """Connect the sandbox to the machine by a pair of interfaces, which are removed with the sandbox.

    The machine reaches the node, its pods and its Services. The node reaches only the machine, because the machine
    forwards no packets of the node.
    """
    link, inner_link = addresses.link, "eth0"
    ip("link", "add", link, "type", "veth", "peer", "name", inner_link, "netns", str(sandbox.init.pid))
    ip("address", "add", f"{addresses.host_ip}/30", "dev", link)
    ip("link", "set", link, "up")
    sandbox.run("ip", "link", "set", "lo", "up")
    sandbox.run("ip", "address", "add", f"{addresses.node_ip}/30", "dev", inner_link)
    sandbox.run("ip", "link", "set", inner_link, "up")
    sandbox.run("ip", "route", "add", "default", "via", addresses.host_ip)
    sandbox.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
    for address_range in (addresses.pods, addresses.services):
        ip("route", "add", address_range, "via", addresses.node_ip)


def refuse_unknown_services(sandbox: Sandbox, addresses: Addresses) -> None:
    """Refuse packets to Service addresses that kube-proxy does not know yet.

    Without this rule, the packet is lost but has an entry in the connection table. Repeated packets follow this entry
    and not kube-proxy's new rules, so the connection hangs for minutes although the Service exists by then.
    """
    for chain in ("FORWARD", "OUTPUT"):
        sandbox.run("iptables", "-A", chain, "-d", addresses.services, "-j", "REJECT")


def filter_forwarded(sandbox: Sandbox, rules: str, chain: str) -> None:
    """Apply `rules` in the format of iptables-restore. Forwarded packets go through `chain` first."""
    sandbox.run("iptables-restore", "--noflush", stdin=rules)
    if f"-A FORWARD -j {chain}" not in sandbox.run("iptables", "-S", "FORWARD").splitlines():
        sandbox.run("iptables", "-I", "FORWARD", "-j", chain)


def remove_link(link: str) -> None:
    """Remove the interface if it exists, and wait until the kernel has removed it."""
    if has_link(link):
        subprocess.run(["ip", "link", "del", link], env=environment(), capture_output=True, check=False)
        wait_until(lambda: not has_link(link), f"interface {link} to go", timeout=10)


def has_link(link: str) -> bool:
    """Return True if this network has an interface of that name."""
    process = subprocess.run(["ip", "link", "show", link], env=environment(), capture_output=True, check=False)
    return process.returncode == 0


def ip(*arguments: str) -> str:
    """Run `ip`. Raises LocalClusterError with the error output."""
    command = ["ip", *arguments]
    process = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    if process.returncode:
        raise LocalClusterError(f"`{' '.join(command)}` failed ({process.stderr.strip()}): run as root.")
    return process.stdout
