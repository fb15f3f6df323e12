"""Addresses of API servers in tests and benchmarks."""

from localcluster.sandbox.addresses import Addresses


class RoomForMany(Addresses):
    """Addresses for thousands of Services. A normal local cluster has addresses for only 254 Services."""

    @property
    def services(self) -> str:
        """The range of Service addresses."""
        return "10.96.0.0/16"
