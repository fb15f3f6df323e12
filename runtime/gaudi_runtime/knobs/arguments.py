"""What is wrong with engine.extraArgs: arguments of vLLM that are in no table (docs/knobs.md, Further arguments).

Arguments that the table does not know are passed on: vLLM has hundreds, and refuses what it does not know.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from gaudi_runtime.knobs.check import why_not
from gaudi_runtime.knobs.knob import Home, Kind, Knob
from gaudi_runtime.knobs.table import knobs
from gaudi_runtime.units import quoted

_VALUE = re.compile(r"[^-]|-[0-9.]|-?$")
_ARGUMENT = re.compile(r"--[A-Za-z][-A-Za-z0-9_]*(\.[^=]+)?(=.*)?")


def wrong_arguments(arguments: Iterable[str]) -> Iterator[str]:
    """A sentence, without a final stop, for every argument that is malformed or that the table has a better place for.

    A value stands behind "=" or is the next word, as on a command line.
    """
    may_take_values = False
    for argument in arguments:
        if _VALUE.match(argument):
            if not may_take_values:
                yield f"{quoted(argument)} belongs to no argument: write --name=value"
            continue
        sentence = _why_not(argument)
        if sentence is not None:
            yield sentence
        may_take_values = "=" not in argument


def _why_not(argument: str) -> str | None:
    if not _ARGUMENT.fullmatch(argument) or not argument.isprintable():
        return f"{quoted(argument)} is not spelled as an argument: write --name or --name=value, with the long name"
    name = argument.partition("=")[0]
    knob = _known().get(_plain(name))
    if knob is not None:
        return _better_place(knob)
    whole = next((each for spelling, each in _known().items() if spelling.startswith(_plain(name))), None)
    return None if whole is None else f"{name} is short for {whole.name}: {_better_place(whole)}"


def _better_place(knob: Knob) -> str:
    return f"{knob.name} belongs into spec.engine.settings" if knob.home is Home.SETTINGS else why_not(knob)


@cache
def _known() -> Mapping[str, Knob]:
    return {_plain(knob.name): knob for knob in knobs().values() if knob.kind is Kind.ARGUMENT}


def _plain(name: str) -> str:
    """vLLM takes dashes and underscores alike, --no- before a flag, and entries of a JSON argument after a dot."""
    return name.partition(".")[0].replace("_", "-").replace("--no-", "--", 1)
