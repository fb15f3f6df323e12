"""The options that all `gaudi-plan` commands share: the document to plan for, and the choices of other options.

    @with_document
    def buckets(document: PlanDocument, output: OutputOption = Output.TABLE) -> None: ...

The first parameter of a command is the parsed document. If the document is invalid or no plan is possible, the command
prints one sentence on standard error and exits with code 2. The choices are defined in this module, so that no command
loads the imports of another command.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gaudi_operator.cli.options import with_options_of
from gaudi_operator.cli.plan.document import (
    WANTED,
    Document,
    PlanDocument,
    parse_document,
    read_plan_document,
    read_text,
)
from gaudi_runtime.contract.text import make_one_line
from gaudi_runtime.errors import ConfigError, RuntimeStartError

MAX_BUCKET_FILE_BYTES = 64 * 1024

File = Annotated[
    Path | None,
    typer.Option(
        "-f",
        "--file",
        help=f"File to plan for: {WANTED}, in JSON or YAML. - reads standard input.",
    ),
]
FromCluster = Annotated[str | None, typer.Option(metavar="NAME", help="Name of a GaudiInference in the cluster.")]
Namespace = Annotated[
    str | None,
    typer.Option(
        "-n", "--namespace", help="Namespace of the GaudiInference. Defaults to the namespace of the current context."
    ),
]
Name = Annotated[str | None, typer.Option(help="Name of the GaudiInference, if the file has several.")]
BucketFile = Annotated[Path | None, typer.Option(help="File with buckets. The command then plans with strategy File.")]
KvBlocks = Annotated[int | None, typer.Option(min=1, max=2**60, help="Number of KV blocks of the device.")]


class PatchForm(StrEnum):
    """The choices of the option --as: a learned plan is written as traffic for strategy Optimal or as a bucket file."""

    OPTIMAL = "optimal"
    FILE = "file"


FormOption = Annotated[
    PatchForm,
    typer.Option("--as", help="Form of the change: optimal contains the traffic, file contains the chosen buckets."),
]
# These bounds are copies of the bounds of `bucketing.optimal`. Importing the originals would delay every command.
GraphsOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=20_000,
        help="Maximum number of prompt graphs of Optimal. Defaults to the fewest graphs that pad no more than"
        " Exponential.",
    ),
]
DecodeOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=20_000,
        help="Maximum number of decode graphs of Optimal. Defaults to the fewest graphs that pad no more than"
        " Exponential.",
    ),
]
BytesOption = Annotated[
    int | None, typer.Option(min=1, max=2**50, help="Budget of graph memory in bytes, instead of numbers of graphs.")
]
SecondsOption = Annotated[
    int | None, typer.Option(min=1, max=604_800, help="Budget of the warm-up in seconds, instead of numbers of graphs.")
]


def _select_document(
    file: File = None,
    from_cluster: FromCluster = None,
    namespace: Namespace = None,
    name: Name = None,
    bucket_file: BucketFile = None,
    kv_blocks: KvBlocks = None,
) -> PlanDocument:
    """Return the document that the options of a `gaudi-plan` command select. Raises ConfigError with one sentence."""
    document = _read_document(file, from_cluster, namespace, name)
    if bucket_file:
        document = document.with_bucket_file(read_text(bucket_file, MAX_BUCKET_FILE_BYTES))
    return replace(document, kv_blocks=kv_blocks) if kv_blocks else document


@contextmanager
def report_errors() -> Iterator[None]:
    """Print an error of a `gaudi-plan` command as one sentence, and exit with code 2."""
    try:
        yield
    except RuntimeStartError as error:
        sentence = make_one_line(str(error))
        typer.echo(f"gaudi-plan: {sentence}{'' if sentence.endswith(('.', '?')) else '.'}", err=True)
        raise typer.Exit(2) from error


with_document = with_options_of(_select_document, report_errors)
"""A decorator that replaces the first parameter of a command by the options of _select_document()."""


def _read_document(
    file: Path | None, from_cluster: str | None, namespace: str | None, name: str | None
) -> PlanDocument:
    if (file is None) == (from_cluster is None):
        raise ConfigError("give a model to plan for: -f FILE (- reads standard input) or --from-cluster NAME")
    if file is None:
        return read_plan_document(_stored_document(str(from_cluster), namespace), stored=True)
    text, source_name = read_text(file), "standard input" if str(file) == "-" else str(file)
    try:
        return read_plan_document(parse_document(text, name))
    except ConfigError as error:
        raise ConfigError(f"{source_name}: {error}") from error


def _stored_document(name: str, namespace: str | None) -> Document:
    try:
        from gaudi_operator.cli.cluster import Cluster, Connection
    except ModuleNotFoundError as error:
        # The runtime's image does not contain the Kubernetes client, because the runtime's pods have no permissions in
        # the cluster.
        raise ConfigError("--from-cluster needs the Kubernetes client. Install the extra `cli`") from error
    return Cluster(Connection(namespace=namespace)).fetch_inference(name)
