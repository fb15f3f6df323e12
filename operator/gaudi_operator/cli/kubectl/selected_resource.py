"""The options that all `kubectl gaudi` commands share (resource, cluster, output), and the handling of errors.

    @with_resource
    def pause(selection: SelectedResource) -> None: ...

The first parameter of a command is a SelectedResource or a SelectedCluster, which contains an open cluster. If a
command fails, it prints one sentence on standard error and exits with code 1, as kubectl does.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from gaudi_operator.api.v1alpha1.resource import GROUP, PLURAL, SHORT_NAMES, SINGULAR
from gaudi_operator.cli.options import with_options_of
from gaudi_operator.core.inference import SpecUnreadable
from gaudi_runtime.contract.text import make_one_line
from gaudi_runtime.errors import RuntimeStartError

if TYPE_CHECKING:
    from gaudi_operator.cli.cluster import Cluster

KINDS = (SINGULAR, PLURAL, *SHORT_NAMES, f"{SINGULAR}.{GROUP}", f"{PLURAL}.{GROUP}")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the GaudiInference, or gi/NAME.")]
Namespace = Annotated[
    str | None,
    typer.Option(
        "-n", "--namespace", help="Namespace of the GaudiInference. Defaults to the namespace of the context."
    ),
]
Context = Annotated[str | None, typer.Option(help="Context of the kubeconfig. Defaults to the current context.")]
Kubeconfig = Annotated[str | None, typer.Option(help="Path of the kubeconfig. Defaults to the kubeconfig of kubectl.")]


class OutputFormat(StrEnum):
    """The values of the option --output of `kubectl gaudi` commands: text or JSON."""

    TEXT = "text"
    JSON = "json"


Output = Annotated[
    OutputFormat, typer.Option("-o", "--output", help="Output format: text for people, json for programs.")
]


class ResourceCommandError(Exception):
    """An error of a `kubectl gaudi` command that is caused by its options or by the state of the resource.

    The message is one sentence without a full stop.
    """


@dataclass(frozen=True)
class SelectedResource:
    """The resource and the cluster that the options of a `kubectl gaudi` command select."""

    name: str
    cluster: "Cluster"

    @property
    def full_name(self) -> str:
        """The type and the name of the resource, in the form that kubectl prints after a change."""
        return f"{SINGULAR}.{GROUP}/{self.name}"


@dataclass(frozen=True)
class SelectedCluster:
    """The cluster that the options of a `kubectl gaudi` command select, for commands without a resource."""

    cluster: "Cluster"


def _select_resource(
    name: Name, namespace: Namespace = None, context: Context = None, kubeconfig: Kubeconfig = None
) -> SelectedResource:
    """Return the resource that NAME and the options of a `kubectl gaudi` command select.

    Raises ResourceCommandError if NAME is not valid or the Kubernetes client is not installed, and ConfigError if no
    cluster is configured.
    """
    return SelectedResource(parse_resource_name(name), _select_cluster(namespace, context, kubeconfig).cluster)


def _select_cluster(
    namespace: Namespace = None, context: Context = None, kubeconfig: Kubeconfig = None
) -> SelectedCluster:
    """Return the cluster that the options of a `kubectl gaudi` command select.

    Raises ResourceCommandError if the Kubernetes client is not installed, and ConfigError if no cluster is configured.
    """
    try:
        # Import the Kubernetes client here, because `--help` and errors in the command line do not need the client.
        from gaudi_operator.cli.cluster import Cluster, Connection
    except ModuleNotFoundError as error:
        raise ResourceCommandError(f"{error.name} is not installed. Install the extra `cli`") from error
    return SelectedCluster(Cluster(Connection(kubeconfig, context, namespace)))


def parse_resource_name(argument: str) -> str:
    """Return NAME from a command line argument of the form NAME or KIND/NAME.

    Raises ResourceCommandError if KIND is not a GaudiInference.
    """
    kind, slash, resource_name = argument.rpartition("/")
    if slash and kind.lower() not in KINDS:
        raise ResourceCommandError(f"{kind} is not a GaudiInference: give NAME or gi/NAME")
    return resource_name


@contextmanager
def report_errors() -> Iterator[None]:
    """Print the error of a `kubectl gaudi` command as one sentence, and exit with code 1."""
    try:
        yield
    except (ResourceCommandError, RuntimeStartError, SpecUnreadable) as error:
        typer.echo(f"error: {make_one_line(str(error)).rstrip('.')}.", err=True)
        raise typer.Exit(1) from error


with_resource = with_options_of(_select_resource, report_errors)
"""A decorator that replaces the first parameter of a command by the parameters of _select_resource()."""
with_cluster = with_options_of(_select_cluster, report_errors)
"""A decorator that replaces the first parameter of a command by the parameters of _select_cluster()."""
