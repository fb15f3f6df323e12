"""The traces of a node on the machine, as reported by the kernel."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Self

from localcluster.sandbox.addresses import Addresses
from localcluster.sandbox.network import ip
from localcluster.sandbox.processes import Identity


@dataclass(frozen=True)
class Traces:
    """The link, routes, cgroups and mounts of one node, and the machine's iptables.

    Links and routes contain the kernel's number of the link, and cgroups contain their inode. Therefore, a later node
    with the same addresses has other traces. A concurrent test may start such a node in the freed slot.
    """

    links: frozenset[str]
    routes: frozenset[str]
    cgroups: frozenset[str]
    mounts: list[str]
    iptables: str

    def still_in(self, later: Self) -> frozenset[str]:
        """Return the links, routes and cgroups that `later` also contains."""
        return (self.links & later.links) | (self.routes & later.routes) | (self.cgroups & later.cgroups)


def traces(run_dir: Path, addresses: Addresses) -> Traces:
    """Return the current traces of the node with `addresses` in `run_dir`."""
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    marks = (str(run_dir), "/run/netns", "/run/containerd", "/var/lib/kubelet", "/var/lib/cni")
    saved = subprocess.run(["/usr/sbin/iptables-save"], capture_output=True, text=True, check=True).stdout
    numbers = [line.split(":")[0] for line in ip("-oneline", "link").splitlines() if f" {addresses.link}@" in line]
    routes = [line for line in ip("route").splitlines() if f" {addresses.link} " in f"{line} "]
    return Traces(
        links=frozenset(f"{number}: {addresses.link}" for number in numbers),
        routes=frozenset(f"{number}: {route}" for number in numbers for route in routes),
        cgroups=frozenset(_cgroups(addresses.cgroup)),
        mounts=[line for line in mounts if any(mark in line for mark in marks)],
        iptables="\n".join(line for line in saved.splitlines() if not line.startswith(("#", ":"))),
    )


def _cgroups(name: str) -> Iterator[str]:
    # Use os.walk() instead of glob(), because os.walk() ignores folders that a concurrent test deletes during the
    # search.
    for parent, names, _ in os.walk("/sys/fs/cgroup"):
        if name in names:
            with suppress(FileNotFoundError):
                yield f"{parent}/{name} {Path(parent, name).stat().st_ino}"


def process_tree(pid: int) -> list[Identity]:
    """Return a process and all its descendants, except descendants that end during the call."""
    try:
        found = [Identity.of(pid)]
        children = [(task / "children").read_text().split() for task in Path(f"/proc/{pid}/task").iterdir()]
    except (FileNotFoundError, ProcessLookupError):
        return []
    for child in chain.from_iterable(children):
        found += process_tree(int(child))
    return found


def state_of(run_dir: Path) -> tuple[int, Addresses]:
    """Return the PID of process 1 of the sandbox in `run_dir`, and the node's addresses."""
    state = json.loads((run_dir / "state.json").read_text())
    return state["pid"], Addresses(state["slot"])
