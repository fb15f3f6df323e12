"""Network of a sandbox and of a test process, by `ip` alone."""

import ctypes
import os
import subprocess

from localcluster.addresses import Addresses
from localcluster.debian import environment
from localcluster.errors import LocalClusterError
from localcluster.processes import wait_until
from localcluster.sandbox import Sandbox

_CLONE_NEWNET = 0x40000000
POD_RANGE = "10.250.0.0/16"


def enter_network_namespace() -> None:
    """Move this thread, and all threads and processes that it starts later, into an empty network.

    Every address of 10.250.0.0/16 is local there: a server may listen on any of them, and they may stand
    in EndpointSlices and pod statuses, where the API server refuses loopback addresses. Call it in the
    main thread before anything listens, and after tools(), which may have to fetch.
    Raises LocalClusterError without the right to do it.
    """
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(_CLONE_NEWNET) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise LocalClusterError(f"A network of one's own is refused ({reason}): run as root.")
    ip("link", "set", "lo", "up")
    ip("route", "add", "local", POD_RANGE, "dev", "lo")


def add_loopback_address(address: str) -> bool:
    """Give `lo` the address; False if it had it before."""
    ip("link", "set", "lo", "up")
    if f" {address}/32 " in ip("-oneline", "address", "show", "dev", "lo"):
        return False
    ip("address", "add", f"{address}/32", "dev", "lo")
    return True


def remove_loopback_address(address: str) -> None:
    """Take the address from `lo` again."""
    ip("address", "del", f"{address}/32", "dev", "lo")


def connect(sandbox: Sandbox, addresses: Addresses) -> None:
    """Join the sandbox to the machine by a pair of interfaces that end when the sandbox does.

    The machine reaches the node, its pods and its Services; the node reaches the machine and nothing
    beyond, because the machine forwards nothing for it.
    """
    link, inner = addresses.link, "eth0"
    ip("link", "add", link, "type", "veth", "peer", "name", inner, "netns", str(sandbox.init.pid))
    ip("address", "add", f"{addresses.host_ip}/30", "dev", link)
    ip("link", "set", link, "up")
    sandbox.run("ip", "link", "set", "lo", "up")
    sandbox.run("ip", "address", "add", f"{addresses.node_ip}/30", "dev", inner)
    sandbox.run("ip", "link", "set", inner, "up")
    sandbox.run("ip", "route", "add", "default", "via", addresses.host_ip)
    sandbox.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
    for reachable in (addresses.pods, addresses.services):
        ip("route", "add", reachable, "via", addresses.node_ip)


def refuse_unknown_services(sandbox: Sandbox, addresses: Addresses) -> None:
    """Refuse at once what goes to a Service address that kube-proxy does not know yet.

    A packet that would get lost instead leaves an entry in the connection table, and the repeated ones follow
    that entry past kube-proxy's rules: the connection hangs for minutes although the Service is there by then.
    """
    for chain in ("FORWARD", "OUTPUT"):
        sandbox.run("iptables", "-A", chain, "-d", addresses.services, "-j", "REJECT")


def filter_forwarded(sandbox: Sandbox, rules: str, chain: str) -> None:
    """Put `rules`, as iptables-restore takes them, into force; what is forwarded goes through `chain` first of all."""
    sandbox.run("iptables-restore", "--noflush", stdin=rules)
    if f"-A FORWARD -j {chain}" not in sandbox.run("iptables", "-S", "FORWARD").splitlines():
        sandbox.run("iptables", "-I", "FORWARD", "-j", chain)


def remove_link(link: str) -> None:
    """Remove the interface if it is there, and wait until it is not: the kernel takes its time."""
    if has_link(link):
        subprocess.run(["ip", "link", "del", link], env=environment(), capture_output=True, check=False)
        wait_until(lambda: not has_link(link), f"interface {link} to go", timeout=10)


def has_link(link: str) -> bool:
    """Whether this network has an interface of that name."""
    shown = subprocess.run(["ip", "link", "show", link], env=environment(), capture_output=True, check=False)
    return shown.returncode == 0


def ip(*arguments: str) -> str:
    """Run `ip`; LocalClusterError with its own words when it fails."""
    command = ["ip", *arguments]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise LocalClusterError(f"`{' '.join(command)}` failed ({done.stderr.strip()}): run as root.")
    return done.stdout
