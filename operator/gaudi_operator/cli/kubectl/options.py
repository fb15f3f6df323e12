"""The options that the commands of `kubectl gaudi` share (resource, cluster, output), and the handling of refusals.

    @with_resource
    def pause(asked: SelectedResource) -> None: ...

A command declares a SelectedResource or a SelectedCluster as its first parameter, which has an open cluster. A command
that fails prints one sentence on standard error and exits with code 1, as kubectl does.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from gaudi_operator.api.v1alpha1.resource import GROUP, PLURAL, SHORT_NAMES, SINGULAR
from gaudi_operator.cli.options import questions
from gaudi_operator.core.resource import SpecUnreadable
from gaudi_runtime.contract.text import on_one_line
from gaudi_runtime.errors import RuntimeStartError

if TYPE_CHECKING:
    from gaudi_operator.cli.cluster import Cluster

KINDS = (SINGULAR, PLURAL, *SHORT_NAMES, f"{SINGULAR}.{GROUP}", f"{PLURAL}.{GROUP}")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the GaudiInference, or gi/NAME.")]
Namespace = Annotated[
    str | None,
    typer.Option("-n", "--namespace", help="Namespace of the GaudiInference. Defaults to that of the context."),
]
Context = Annotated[str | None, typer.Option(help="Context of the kubeconfig. Defaults to the current context.")]
Kubeconfig = Annotated[str | None, typer.Option(help="Path of the kubeconfig. Defaults to that of kubectl.")]


class Form(StrEnum):
    """The value of the option --output of a `kubectl gaudi` command: text or JSON."""

    TEXT = "text"
    JSON = "json"


Output = Annotated[Form, typer.Option("-o", "--output", help="Output format: text for people, json for programs.")]


class Refused(Exception):
    """The refusal of a `kubectl gaudi` command because of its options or the state of the resource.

    The message is a sentence without a full stop.
    """


@dataclass(frozen=True)
class SelectedResource:
    """The resource and the cluster that the options of a `kubectl gaudi` command select."""

    name: str
    cluster: "Cluster"

    @property
    def full_name(self) -> str:
        """The full name, as kubectl prints it for a changed object."""
        return f"{SINGULAR}.{GROUP}/{self.name}"


@dataclass(frozen=True)
class SelectedCluster:
    """The cluster that the options of a `kubectl gaudi` command without a resource select."""

    cluster: "Cluster"


def select_resource(
    name: Name, namespace: Namespace = None, context: Context = None, kubeconfig: Kubeconfig = None
) -> SelectedResource:
    """Return the resource that NAME and the options of a `kubectl gaudi` command select.

    Raises Refused, or ConfigError if no cluster is configured.
    """
    return SelectedResource(plain_name(name), select_cluster(namespace, context, kubeconfig).cluster)


def select_cluster(
    namespace: Namespace = None, context: Context = None, kubeconfig: Kubeconfig = None
) -> SelectedCluster:
    """Return the cluster that the options of a `kubectl gaudi` command select.

    Raises the errors of select_resource().
    """
    try:
        # Import the client here, because help and command line errors do not need the client.
        from gaudi_operator.cli.cluster import Cluster, Connection
    except ModuleNotFoundError as error:
        raise Refused(f"{error.name} is not installed; install the extra `cli`") from error
    return SelectedCluster(Cluster(Connection(kubeconfig, context, namespace)))


def plain_name(name: str) -> str:
    """Return NAME from the argument NAME or KIND/NAME of a `kubectl gaudi` command.

    Raises Refused if KIND is not a GaudiInference.
    """
    kind, slash, plain = name.rpartition("/")
    if slash and kind.lower() not in KINDS:
        raise Refused(f"{kind} is not a GaudiInference: give NAME or gi/NAME")
    return plain


@contextmanager
def report_errors() -> Iterator[None]:
    """Print the error of a `kubectl gaudi` command as one sentence, and exit with code 1."""
    try:
        yield
    except (Refused, RuntimeStartError, SpecUnreadable) as error:
        typer.echo(f"error: {on_one_line(str(error)).rstrip('.')}.", err=True)
        raise typer.Exit(1) from error


with_resource = questions(select_resource, report_errors)
"""A decorator that replaces the first parameter of a command by the parameters of select_resource()."""
with_cluster = questions(select_cluster, report_errors)
"""A decorator that replaces the first parameter of a command by the parameters of select_cluster()."""
