"""The addresses of a cluster. Each running cluster has a slot, so that one machine can run several clusters."""

from dataclasses import dataclass

SLOTS = 8


@dataclass(frozen=True)
class Addresses:
    """The addresses of the cluster in `slot`. `node_ip` is the node's address; empty means the slot's default."""

    slot: int = 0
    node_ip: str = ""

    def __post_init__(self) -> None:
        """Set the slot's default node address."""
        object.__setattr__(self, "node_ip", self.node_ip or f"10.200.{self.slot}.1")

    @property
    def host_ip(self) -> str:
        """The machine's address on the link to the node."""
        return f"10.200.{self.slot}.2"

    @property
    def loopback(self) -> str:
        """A loopback address of this cluster, which is reachable only within the node."""
        return "127." + self.node_ip.split(".", 1)[1]

    @property
    def pods(self) -> str:
        """Range of pod addresses."""
        return f"10.244.{self.slot}.0/24"

    @property
    def services(self) -> str:
        """Range of Service addresses."""
        return f"10.96.{self.slot}.0/24"

    @property
    def kubernetes_ip(self) -> str:
        """Address of the Service `kubernetes`, always the first of the range."""
        return f"10.96.{self.slot}.1"

    @property
    def dns_ip(self) -> str:
        """Address of the cluster's DNS Service."""
        return f"10.96.{self.slot}.10"

    @property
    def server(self) -> str:
        """The URL of the API server."""
        return f"https://{self.node_ip}:6443"

    @property
    def link(self) -> str:
        """Name of the machine's end of the link."""
        return f"gaudi{self.slot}"

    @property
    def cgroup(self) -> str:
        """The name of the cgroup of all pods of the node."""
        return f"gaudi-node-{self.slot}"
