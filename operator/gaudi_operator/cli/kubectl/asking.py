"""The argument and the options that every command has: which resource, in which cluster; and how a refusal is shown.

    @asks
    def pause(asked: Asked) -> None: ...

A command declares them as its first parameter and gets them with an open cluster. One that cannot do what it was asked
ends with one sentence on standard error and exit code 1, as with kubectl.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from gaudi_operator.api.v1alpha1.resource import GROUP, PLURAL, SHORT_NAMES, SINGULAR
from gaudi_operator.cli.asking import questions
from gaudi_operator.core.resource import SpecUnreadable
from gaudi_runtime.contract.text import on_one_line
from gaudi_runtime.errors import RuntimeStartError

if TYPE_CHECKING:
    from gaudi_operator.cli.cluster import Cluster

KINDS = (SINGULAR, PLURAL, *SHORT_NAMES, f"{SINGULAR}.{GROUP}", f"{PLURAL}.{GROUP}")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the GaudiInference; gi/NAME will do too.")]
Namespace = Annotated[
    str | None, typer.Option("-n", "--namespace", help="Its namespace; that of the context when left out.")
]
Context = Annotated[str | None, typer.Option(help="Context of the kubeconfig; the current one when left out.")]
Kubeconfig = Annotated[str | None, typer.Option(help="Path of the kubeconfig; as for kubectl when left out.")]


class Refused(Exception):
    """The command does not do it; the message is a sentence without its dot."""


@dataclass(frozen=True)
class Asked:
    """One resource of one cluster."""

    name: str
    cluster: "Cluster"

    @property
    def full_name(self) -> str:
        """As kubectl names an object that it has changed."""
        return f"{SINGULAR}.{GROUP}/{self.name}"


@dataclass(frozen=True)
class AskedAll:
    """All resources of a cluster."""

    cluster: "Cluster"


def ask(name: Name, namespace: Namespace = None, context: Context = None, kubeconfig: Kubeconfig = None) -> Asked:
    """What a command line asks about. Raises Refused, or ConfigError when no cluster is known."""
    return Asked(plain_name(name), ask_all(namespace, context, kubeconfig).cluster)


def ask_all(namespace: Namespace = None, context: Context = None, kubeconfig: Kubeconfig = None) -> AskedAll:
    """What a command line that names no resource asks about. Raises as `ask` does."""
    try:
        # Imported here: help, and what is wrong with a command line, need no client.
        from gaudi_operator.cli.cluster import Cluster, Connection
    except ModuleNotFoundError as error:
        raise Refused(f"{error.name} is not installed; install the extra `cli`") from error
    return AskedAll(Cluster(Connection(kubeconfig, context, namespace)))


def plain_name(name: str) -> str:
    """NAME of NAME or KIND/NAME. Raises Refused for another kind."""
    kind, slash, plain = name.rpartition("/")
    if slash and kind.lower() not in KINDS:
        raise Refused(f"{kind} is no kind that this command knows: give the name of a GaudiInference")
    return plain


@contextmanager
def one_sentence() -> Iterator[None]:
    """Turn what went wrong into that sentence and that code."""
    try:
        yield
    except (Refused, RuntimeStartError, SpecUnreadable) as error:
        typer.echo(f"error: {on_one_line(str(error)).rstrip('.')}.", err=True)
        raise typer.Exit(1) from error


asks = questions(ask, one_sentence)
"""Gives a command the parameters of `ask` in place of its first one."""
asks_all = questions(ask_all, one_sentence)
"""The same with those of `ask_all`."""
