"""A real Kubernetes on this machine, for development, the demo and the tests."""

from localcluster.cluster import Cluster, cluster, remove_cluster, uses_own_node
from localcluster.control_plane.control_plane import ControlPlane
from localcluster.errors import LocalClusterError
from localcluster.node.node import Node
from localcluster.programs.tools import Tools, tools
from localcluster.sandbox.network import enter_network_namespace

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
    "uses_own_node",
]
