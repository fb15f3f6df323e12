"""Where pods find a server of this machine."""

import socket
from urllib.parse import urlsplit

import yaml

from demo.install import Installed


def address_that_pods_reach(installed: Installed) -> str:
    """The address of this machine on the network that its node is on."""
    server = yaml.safe_load(installed.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as to_node:
        to_node.connect((urlsplit(server).hostname, urlsplit(server).port))
        return str(to_node.getsockname()[0])
