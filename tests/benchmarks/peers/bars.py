"""Limits for our operator, absolute and relative to LeaderWorkerSet, and the table that compares them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

Phases = Mapping[str, Mapping[str, float]]
UNITS = {"requests": "requests per resource", "cpu": "CPU ms per resource", "memory": "memory MiB"}
PHASES = ("idle", "create", "rest", "ready", "change", "start", "delete")
OURS, PEER = "ours", "lws"


@dataclass(frozen=True)
class Bar:
    """The limit of a figure in a phase, computed from the same figure of LeaderWorkerSet.

    The limit applies from `resources` resources on. With fewer resources, Python and its libraries use most of the
    memory.
    """

    phase: str
    figure: str
    label: str
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


def compare(found: Mapping[str, Phases], count: int) -> tuple[list[str], bool]:
    """Return the table for `count` resources as lines, and whether a limit was missed.

    If LeaderWorkerSet was not measured, only absolute limits apply.
    """
    bars = {(bar.phase, bar.figure): bar for bar in BARS if bar.resources <= count}
    rows = [["", *found, "bar", ""], *_rows(found, bars)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return lines, any(row[-1] == "missed" for row in rows)


def _rows(found: Mapping[str, Phases], bars: Mapping[tuple[str, str], Bar]) -> Iterator[list[str]]:
    for phase in PHASES:
        for figure, unit in UNITS.items():
            # While an operator is idle there are no resources, so only memory is compared.
            if phase == "idle" and figure != "memory":
                continue
            cells = [f"{each[phase][figure]:.1f}" for each in found.values()]
            yield [f"{phase}: {unit}", *cells, *_verdict(bars.get((phase, figure)), found)]


def _verdict(bar: Bar | None, found: Mapping[str, Phases]) -> tuple[str, str]:
    if bar is None or OURS not in found or ("lws" in bar.label and PEER not in found):
        return "", ""
    peer = found[PEER][bar.phase][bar.figure] if PEER in found else 0.0
    # Compare the rounded values that the table shows, because one more request for 50 resources is not significant.
    met = round(found[OURS][bar.phase][bar.figure], 1) <= round(bar.most(peer), 1)
    return bar.label, "met" if met else "missed"
