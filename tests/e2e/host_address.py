"""The address of this machine that pods can connect to."""

import socket
from urllib.parse import urlsplit

import yaml

from demo.install import Installation


def host_address(installed: Installation) -> str:
    """Return the address of this machine on the network of the node."""
    server = yaml.safe_load(installed.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as to_node:
        to_node.connect((urlsplit(server).hostname, urlsplit(server).port))
        return str(to_node.getsockname()[0])
