"""A real Kubernetes on this machine, for development, the demo and the tests."""

from localcluster.cluster import Cluster, cluster, remove_cluster
from localcluster.control_plane import ControlPlane
from localcluster.errors import LocalClusterError
from localcluster.network import enter_network_namespace
from localcluster.node import Node
from localcluster.tools import Tools, tools

__all__ = [
    "Cluster",
    "ControlPlane",
    "LocalClusterError",
    "Node",
    "Tools",
    "cluster",
    "enter_network_namespace",
    "remove_cluster",
    "tools",
]
