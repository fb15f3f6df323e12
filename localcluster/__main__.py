"""`python -m localcluster`: a Kubernetes node on this machine."""

import shutil
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from localcluster.cache import cache_dir
from localcluster.cluster import uses_own_node
from localcluster.errors import LocalClusterError
from localcluster.images import images
from localcluster.leader_worker_sets import install as install_leader_worker_sets
from localcluster.node.machine import clean_up, remove_image_stores
from localcluster.node.node import Node, Profile, ensure_node
from localcluster.node.state import read_state
from localcluster.programs import build
from localcluster.programs.prepare import PROGRAMS
from localcluster.programs.prepare import prepare as make_ready
from localcluster.programs.side_by_side import Job, run_lanes
from localcluster.programs.tools import tools as all_tools
from localcluster.progress import console, step

app = typer.Typer(add_completion=False, no_args_is_help=True, help="A real Kubernetes node on this machine.")
Name = Annotated[str, typer.Option(help="Name of the node, and of its folder in the cache.")]
Target = Annotated[str, typer.Option(help="Target of the Dockerfile: operator or runtime.")]
Tag = Annotated[str, typer.Option(help="Name of the image in pods.")]
Images = Annotated[list[str] | None, typer.Option(help="TARGET=TAG of an image to build; may be repeated.")]
WithController = Annotated[bool, typer.Option(help="Build the LeaderWorkerSet controller too.")]
BuildArgument = Annotated[list[str] | None, typer.Option(help="NAME=VALUE for the Dockerfile's ARG.")]


@app.command()
def up(name: Name = "gaudi", profile: Profile = "node") -> None:
    """Start a node, or only its control plane, and print the path of its kubeconfig."""
    typer.echo(ensure_node(run_dir(name), name, profile).kubeconfig)


@app.command()
def down(name: Name = "gaudi") -> None:
    """Stop a node and remove all its files, including logs. Images stay in the cache."""
    clean_up(run_dir(name))
    shutil.rmtree(run_dir(name), ignore_errors=True)


@app.command()
def clean() -> None:
    """Remove the images of stopped nodes, and the layers from which they were built."""
    with step("Removing images"):
        remove_image_stores()
        images.remove_layers()


@app.command()
def status() -> None:
    """Print the running nodes."""
    folders = sorted(path.parent for path in (cache_dir() / "run").glob("*/state.json"))
    for folder in folders:
        state = read_state(folder)
        if state:
            typer.echo(f"{state.name}  {state.profile}  {state.addresses.server}  {state.health}")
    if not folders:
        console.print("No node is running. Start one with `python -m localcluster up`.")


@app.command()
def kubeconfig(name: Name = "gaudi") -> None:
    """Print the path of a running node's kubeconfig."""
    typer.echo(require_running_node(name).kubeconfig)


@app.command()
def tools() -> None:
    """Build all missing programs, and print their folder."""
    for program in sorted(all_tools().bin_dir.iterdir()):
        typer.echo(program)


@app.command()
def prepare(image: Images = None, leader_worker_sets: WithController = False) -> None:
    """Build all missing programs and images concurrently, without starting anything.

    The images are only for a node of our own. kind and the cluster of KUBECONFIG do not use them, and our builder needs
    system packages.
    """
    programs = (*PROGRAMS, *((build.leader_worker_sets,) if leader_worker_sets else ()))
    if uses_own_node():
        make_ready(dict(assignment.split("=", 1) for assignment in image or []), programs)
    else:
        run_lanes([Job(program, program.seconds_left) for program in programs])


@app.command()
def build_image(target: Target, tag: Tag, build_arg: BuildArgument = None, name: Name = "gaudi") -> None:
    """Build an image from the project's Dockerfile, and load it into the node if it is running."""
    arguments = dict(argument.split("=", 1) for argument in build_arg or [])
    images.build_image(target, tag, arguments)
    if node := Node.find(run_dir(name)):
        node.load_image(tag)


@app.command()
def load_image(
    tag: Annotated[str, typer.Argument(help="Name of an image built before.")], name: Name = "gaudi"
) -> None:
    """Load an image into a running node. Only new layers are copied."""
    require_running_node(name).load_image(tag)


@app.command()
def leader_worker_sets(name: Name = "gaudi") -> None:
    """Install the LeaderWorkerSet controller on a running node, for replicas over several nodes."""
    install_leader_worker_sets(require_running_node(name))


def run_dir(name: str) -> Path:
    """Return the state folder of the node `name`."""
    return cache_dir() / "run" / name


def require_running_node(name: str) -> Node:
    """Return the running node of this name."""
    node = Node.find(run_dir(name))
    if node is None:
        raise LocalClusterError(
            f"No node named {name} is running. Start it with `python -m localcluster up --name {name}`."
        )
    return node


def main() -> None:
    """Run a command. An expected error is printed as one sentence without a traceback."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM cleans up like Ctrl-C
    try:
        app()
    except LocalClusterError as error:
        console.print(str(error), style="red", markup=False)
        sys.exit(1)


if __name__ == "__main__":
    main()
