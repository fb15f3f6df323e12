"""The command: look, judge, print."""

from collections.abc import Collection

import typer
from rich.console import Console

from gaudi_runtime.contract.config import EngineName
from gaudi_runtime.doctor.judgement import healthy, installed_engines, judge
from gaudi_runtime.doctor.probes import look
from gaudi_runtime.doctor.table import as_json, print_table


def doctor(wanted: Collection[EngineName], *, as_data: bool, image_only: bool) -> int:
    """Print what this machine and image can do; exit status 1 when something fails that a `wanted` engine needs.

    Without wanted engines all that are installed count.
    """
    facts = look(wanted, image_only=image_only)
    engines = frozenset(wanted) or installed_engines(facts.image)
    rows = judge(facts, engines)
    if as_data:
        typer.echo(as_json(rows, engines))
    else:
        print_table(rows, engines, Console())
    return 0 if healthy(rows) else 1
