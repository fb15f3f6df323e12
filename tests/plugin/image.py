"""Build the runtime's image for cards on a base image with a simulated card: `python -m tests.plugin.image`."""

import sys
from pathlib import Path

from localcluster import Cluster, LocalClusterError, uses_own_node
from localcluster.images import images
from localcluster.node.node import Node
from tests.plugin.environment import CARD, RELEASE, NoSource, skip_message, source

BASE, TAG = f"localhost/played-card:{RELEASE}", "localhost/gaudi-runtime-hpu:played"


def make_available(cluster: Cluster) -> None:
    """Make the image TAG available to pods. Raises NoSource if the image or the plugin's source is not available.

    For our own node, this function builds the image. Other clusters need the image from their user.
    """
    if isinstance(cluster, Node):
        build()
    try:
        cluster.load_image(TAG)
    except LocalClusterError as error:
        if isinstance(cluster, Node):
            raise
        raise NoSource(f"{error} tests/plugin/Dockerfile shows how the image is built.") from error


def build() -> None:
    """Build the image with the tag TAG. Raises NoSource if the plugin's source is not available."""
    recipe = images.Recipe(Path(__file__).with_name("Dockerfile"), {"plugin": source(), "card": CARD})
    images.build_image("played-card", BASE, recipe=recipe)
    # Pass the ID of the base image instead of a tag. When the base image changes, the ID changes too, and this image is
    # built again.
    images.build_image("runtime-hpu", TAG, {"HPU_BASE_IMAGE": images.list_built_images()[BASE]})


def main() -> None:
    """Build the image for a node of our own before the tests run, or print why the image cannot be built."""
    try:
        if uses_own_node():
            build()
    except NoSource as error:
        print(skip_message(error), file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    main()
