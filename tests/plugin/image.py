"""`python -m tests.plugin.image`: the runtime's image for cards, built on one in which the CPU plays the card."""

import sys
from pathlib import Path

from localcluster import Cluster
from localcluster.images import images
from localcluster.node.node import Node
from tests.plugin.environment import CARD, RELEASE, NoSource, left_out, source

BASE, TAG = f"localhost/played-card:{RELEASE}", "localhost/gaudi-runtime-hpu:played"


def make_available(cluster: Cluster) -> None:
    """Let pods find TAG. Raises NoSource where the plugin's source cannot be had.

    On a node of our own it is built. Others are to have it: tests/plugin/Dockerfile says how.
    """
    if isinstance(cluster, Node):
        build()
    cluster.load_image(TAG)


def build() -> None:
    """Make it, as TAG. Raises NoSource."""
    recipe = images.Recipe(Path(__file__).with_name("Dockerfile"), {"plugin": source(), "card": CARD})
    images.build_image("played-card", BASE, recipe=recipe)
    # By its id: another base makes another image.
    images.build_image("runtime-hpu", TAG, {"HPU_BASE_IMAGE": images.built()[BASE]})


def main() -> None:
    """Make it before the tests that run it; where the plugin's source cannot be had, say so."""
    try:
        build()
    except NoSource as error:
        print(left_out(error), file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    main()
