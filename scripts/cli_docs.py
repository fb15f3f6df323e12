"""Writes docs/reference/cli.md from the help of the commands.

`python -m scripts.cli_docs` writes the page. With `--check`, it fails if the page differs.
"""

import os
import re
import sys
from collections.abc import Iterator
from typing import Any

import typer
from typer.testing import CliRunner

from scripts.generated import ROOT, write_or_check

PAGE = ROOT / "docs" / "reference" / "cli.md"

_HEAD = """\
# Commands

Made from the commands' own help by `make generate`. [Install](../start/install.md#commands) the first two in a clone;
`gaudi-runtime` is in the images of the runtime. An option or argument that several commands of a program have in common
is shown at the first of them. `--help` shows all options of a command.
"""
_WIDTH = 100
_OPTION = re.compile(r"^  (?:-|[A-Z]+ <).*\n(?: {4}.*\n)*", re.MULTILINE)
"""An option or an argument with the further lines of its help."""


def _paths(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words after a program's name that call the program itself and each command without subcommands."""
    subcommands = getattr(command, "commands", {})
    if not path or not subcommands:
        yield path
    for name, subcommand in subcommands.items():
        if not subcommand.hidden:
            yield from _paths(subcommand, (*path, name))


def page() -> str:
    """Return the whole page."""
    os.environ["COLUMNS"] = str(_WIDTH)
    from gaudi_operator.cli.kubectl.app import app as kubectl
    from gaudi_operator.cli.plan.app import app as plan
    from gaudi_runtime.__main__ import app as runtime

    parts = [_HEAD]
    for name, app in (("kubectl gaudi", kubectl), ("gaudi-plan", plan), ("gaudi-runtime", runtime)):
        shown: set[str] = set()
        for path in _paths(typer.main.get_command(app)):
            help_text = CliRunner().invoke(app, [*path, "--help"], prog_name=name).stdout
            parts.append(
                f"{'###' if path else '##'} {' '.join((name, *path))}\n\n```text\n{_without(shown, help_text)}\n```\n"
            )
    return "\n".join(parts)


def _without(shown: set[str], help_text: str) -> str:
    """Return the help without the options that `shown` contains, and add its options to `shown`."""

    def show_once(match: re.Match[str]) -> str:
        option = " ".join(match[0].split())
        if option in shown:
            return ""
        shown.add(option)
        return match[0]

    return re.sub(r"\n(?:Arguments|Options):\n(?=\n|\Z)", "", _OPTION.sub(show_once, help_text)).rstrip()


if __name__ == "__main__":
    sys.exit(write_or_check({PAGE: page()}))
