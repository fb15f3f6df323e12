"""What our operator may cost in its own right and beside a peer, and the table that says whether it does."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

Phases = Mapping[str, Mapping[str, float]]
UNITS = {"requests": "requests a resource", "cpu": "CPU ms a resource", "memory": "memory MiB"}
PHASES = ("idle", "create", "rest", "ready", "change", "start", "delete")
OURS, PEER = "ours", "lws"


@dataclass(frozen=True)
class Bar:
    """What a figure of a phase may be, from the same figure of LeaderWorkerSet, with so many resources at least:
    with few, memory is that of Python with its libraries.
    """

    phase: str
    figure: str
    words: str
    most: Callable[[float], float]
    resources: int = 0


BARS = (
    Bar("create", "requests", "10", lambda _: 10),
    Bar("create", "cpu", "2 x lws", lambda peer: 2 * peer),
    Bar("rest", "requests", "0", lambda _: 0),
    Bar("ready", "requests", "3", lambda _: 3),
    Bar("ready", "cpu", "3 x lws", lambda peer: 3 * peer),
    Bar("change", "requests", "6", lambda _: 6),
    Bar("delete", "cpu", "lws + 5 ms", lambda peer: peer + 5),
    Bar("change", "memory", "1.6 x lws", lambda peer: 1.6 * peer, resources=1000),
)


def judged(found: Mapping[str, Phases], count: int) -> tuple[list[str], bool]:
    """The lines of the table of `count` resources, and whether a bar was missed. Without the peer only our own bars are
    judged.
    """
    bars = {(bar.phase, bar.figure): bar for bar in BARS if bar.resources <= count}
    rows = [["", *found, "bar", ""], *_rows(found, bars)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return lines, any(row[-1] == "missed" for row in rows)


def _rows(found: Mapping[str, Phases], bars: Mapping[tuple[str, str], Bar]) -> Iterator[list[str]]:
    for phase in PHASES:
        for figure, unit in UNITS.items():
            # The requests of a start are lists, and what idles has no resource to count by.
            if phase == "idle" and figure != "memory":
                continue
            cells = [f"{each[phase][figure]:.1f}" for each in found.values()]
            yield [f"{phase}: {unit}", *cells, *_verdict(bars.get((phase, figure)), found)]


def _verdict(bar: Bar | None, found: Mapping[str, Phases]) -> tuple[str, str]:
    if bar is None or OURS not in found or ("lws" in bar.words and PEER not in found):
        return "", ""
    peer = found[PEER][bar.phase][bar.figure] if PEER in found else 0.0
    # Rounded as it is shown: a resource in fifty that costs one request more is no other figure.
    met = round(found[OURS][bar.phase][bar.figure], 1) <= round(bar.most(peer), 1)
    return bar.words, "met" if met else "missed"
