"""Build this checkout's images and load them into NODES nodes: `python -m tests.e2e.images NODES`."""

import sys
from contextlib import suppress

from demo import install
from localcluster import Cluster, remove_cluster
from localcluster.node.machine import share_images
from localcluster.node.node import Node
from tests.e2e.conftest import cluster_name
from tests.plugin import image
from tests.plugin.environment import NoSource


def main(nodes: int) -> None:
    """Build the images, load them into one node, and copy them to the other nodes."""
    name = cluster_name("images")
    node: Cluster = install.ensure_cluster(name)
    with suppress(NoSource):  # test_card.py then reports what is skipped
        image.make_available(node)
    slot = node.slot if isinstance(node, Node) else None
    remove_cluster(name)
    if slot is not None:  # kind and existing clusters keep their own images
        share_images(slot, nodes)


if __name__ == "__main__":
    main(int(sys.argv[1]))
