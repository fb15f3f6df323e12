"""Which knobs somebody may have meant."""

from difflib import get_close_matches

from gaudi_runtime.knobs.knob import Home
from gaudi_runtime.knobs.table import knobs
from gaudi_runtime.units import quoted

MOST = 3
LIKENESS = 0.7
"""Of two spellings, from 0 to 1 (difflib): below it a name is no help."""


def unknown_name(name: str) -> str:
    """The sentence for a name that is in no row of the table, with the nearest ones."""
    near = nearest_names(name)
    meant = f"the nearest {'name is' if len(near) == 1 else 'names are'} {', '.join(near)}" if near else "none is near"
    return f"{quoted(name)} is not a knob of the engine; {meant} (docs/knobs.md lists all)"


def nearest_names(name: str) -> list[str]:
    """At most three names of knobs that are spelled like `name`; dashes and case do not count.

    The nearest come first, those that would be refused last.
    """
    spelled = {_plain(each): each for each in knobs()}
    near = [knobs()[spelled[each]] for each in get_close_matches(_plain(name), spelled, n=2 * MOST, cutoff=LIKENESS)]
    return [knob.name for knob in sorted(near, key=lambda knob: knob.home is Home.REFUSED)][:MOST]


def _plain(name: str) -> str:
    return name.lstrip("-").replace("-", "_").upper()
