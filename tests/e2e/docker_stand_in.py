"""A replacement for `docker build` and `docker push` on machines without Docker and without a registry.

    python -m tests.e2e.docker_stand_in RUN_DIR build --target TARGET --tag NAME .
    python -m tests.e2e.docker_stand_in RUN_DIR push NAME

`build` uses the image builder of this project, and a base image with an emulated card instead of Intel's image. `push`
loads the image into the node that runs in RUN_DIR. Pods then use the loaded image and do not pull an image.
"""

import argparse
from pathlib import Path

from localcluster.images import images
from localcluster.node.node import Node
from tests.plugin import image

FOR_CARDS = "runtime-hpu"


def main() -> None:
    """Run one docker command."""
    parser = argparse.ArgumentParser()
    parser.add_argument("run_dir", type=Path)
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build")
    build.add_argument("--target", required=True)
    build.add_argument("--tag", "-t", required=True)
    build.add_argument("context", choices=["."])
    commands.add_parser("push").add_argument("tag")
    asked = parser.parse_args()
    if asked.command == "build":
        build_image(asked.target, asked.tag)
    else:
        node = Node.find(asked.run_dir)
        assert node, f"no node runs in {asked.run_dir}"
        node.load_image(asked.tag)


def build_image(target: str, tag: str) -> None:
    """Build a target of the Dockerfile. The image for cards uses a base image with an emulated card."""
    if target == FOR_CARDS:
        image.build()
        images.build_image(target, tag, {"HPU_BASE_IMAGE": images.list_built_images()[image.BASE]})
    else:
        images.build_image(target, tag)


def write_program(folder: Path, python: str, root: Path, run_dir: Path) -> None:
    """Write a program `docker` into `folder` that runs this module in the checkout `root`."""
    program = folder / "docker"
    program.write_text(f'#!/bin/sh\ncd {root} && exec {python} -m tests.e2e.docker_stand_in {run_dir} "$@"\n')
    program.chmod(0o755)


if __name__ == "__main__":
    main()
