"""An SVG plot of padding by number of graphs: a curve for one strategy, and a point for each other strategy.

The SVG file loads no external resources, has its own background, and has a light and a dark colour scheme. The axis of
graphs is logarithmic, because the numbers of graphs differ by factors.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import floor, log
from typing import NamedTuple
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760, 440
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 56, 60
"""The margins around the area of the curve."""
LETTER, LINE = 6.6, 14
"""The width of a character and the height of a label, at least as large as viewers draw them."""
MARKER = 5
TICKS = tuple(factor * 10**power for power in range(6) for factor in (1, 2, 5))
STYLE = """
text { font: 12px sans-serif; } .title { font-size: 15px; font-weight: bold; }
.paper { fill: #ffffff; } .ink { fill: #1f2328; } .soft { fill: #59636e; }
.grid { stroke: #d1d9e0; } .curve { stroke: #b0413e; fill: none; stroke-width: 2; } .dot { fill: #b0413e; }
.other { fill: #0969da; }
@media (prefers-color-scheme: dark) {
  .paper { fill: #0d1117; } .ink { fill: #e6edf3; } .soft { fill: #9198a1; }
  .grid { stroke: #3d444d; } .curve { stroke: #ff8f85; } .dot { fill: #ff8f85; } .other { fill: #58a6ff; }
}
"""


class PlotPoint(NamedTuple):
    """A plan on the plot: its number of graphs, and its ratio of padded to real compute."""

    graphs: int
    padding: float


class PlotBox(NamedTuple):
    """A rectangle on the plot that a label or a marker covers, in pixels."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: "PlotBox") -> bool:
        """Return True if the two rectangles overlap."""
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


@dataclass(frozen=True)
class _PlotScale:
    """The axes of the plot, which convert values to pixel positions."""

    min_graphs: float
    max_graphs: float
    max_padding: float

    def x(self, graphs: float) -> float:
        """Return the pixels between the left edge and a number of graphs."""
        share = log(graphs / self.min_graphs) / log(self.max_graphs / self.min_graphs)
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    def y(self, padding: float) -> float:
        """Return the pixels between the top edge and a padding."""
        share = (padding - 1) / (self.max_padding - 1)
        return round(HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM), 1)

    def marker_box(self, point: PlotPoint) -> PlotBox:
        """Return the rectangle of a point's marker."""
        x, y = self.x(point.graphs), self.y(point.padding)
        return PlotBox(x - MARKER, y - MARKER, x + MARKER, y + MARKER)


def plot_svg(points: Mapping[str, PlotPoint], curve: Sequence[PlotPoint], curve_name: str) -> str:
    """Return the plot as SVG text.

    `points` are named plans. `curve` are the plans of `curve_name`, fewest graphs first.
    """
    all_points = [*points.values(), *curve]
    scale = _PlotScale(
        min_graphs=0.8 * min((point.graphs for point in all_points), default=1),
        max_graphs=1.3 * max((point.graphs for point in all_points), default=10),
        max_padding=1 + 1.1 * max((point.padding - 1 for point in all_points), default=0.1) + 0.01,
    )
    labels = {f"{name}: {_format_point(point)}": point for name, point in points.items()}
    labels |= {f"{point.graphs}": point for point in curve if points.get(curve_name) != point}
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(TITLE)}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>',
        f'<text class="title ink" x="{LEFT}" y="24">{escape(TITLE)}</text>',
        f'<text class="soft" x="{LEFT}" y="42">{escape(SUBTITLE.format(curve_name))}</text>',
        *_axes(scale),
        f'<polyline class="curve" points="{" ".join(f"{scale.x(x)},{scale.y(y)}" for x, y in curve)}"/>',
        *(_dot(scale, point, "dot") for point in curve),
        *(_dot(scale, point, "other") for name, point in points.items() if name != curve_name),
        *_labels(scale, labels, curve),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


TITLE = "Graphs and padding of each strategy (estimates)"
SUBTITLE = "The curve is {} with fewer and more graphs. Left is a shorter warm-up, down is less padding."


def _format_point(point: PlotPoint) -> str:
    return f"{point.graphs} graphs, {point.padding:.2f}"


def _axes(scale: _PlotScale) -> Iterator[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    for tick in TICKS:
        if scale.min_graphs <= tick <= scale.max_graphs:
            x = scale.x(tick)
            yield f'<line class="grid" x1="{x}" y1="{TOP}" x2="{x}" y2="{bottom}"/>'
            yield f'<text class="soft" x="{x}" y="{bottom + 18}" text-anchor="middle">{tick}</text>'
    step = next(size for size in (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 1e9) if (scale.max_padding - 1) / size <= 8)
    for number in range(floor((scale.max_padding - 1) / step) + 1):
        padding = 1 + number * step
        y = scale.y(padding)
        yield f'<line class="grid" x1="{LEFT}" y1="{y}" x2="{right}" y2="{y}"/>'
        yield f'<text class="soft" x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{padding:.2f}</text>'
    yield f'<text class="ink" x="{(LEFT + right) / 2}" y="{HEIGHT - 14}" text-anchor="middle">{HORIZONTAL}</text>'
    middle_y = (TOP + bottom) / 2
    yield (
        f'<text class="ink" x="16" y="{middle_y}" text-anchor="middle" transform="rotate(-90 16 {middle_y})">'
        f"{VERTICAL}</text>"
    )


HORIZONTAL = "graphs of prompts and decode steps together (logarithmic)"
VERTICAL = "padded compute / real compute"


def _dot(scale: _PlotScale, point: PlotPoint, css_class: str) -> str:
    return f'<circle class="{css_class}" cx="{scale.x(point.graphs)}" cy="{scale.y(point.padding)}" r="{MARKER}"/>'


def _labels(scale: _PlotScale, labels: Mapping[str, PlotPoint], curve: Sequence[PlotPoint]) -> Iterator[str]:
    """Yield the labels, the longest first. Each label is at the place next to its point with the least overlap."""
    occupied_boxes = [*map(scale.marker_box, {*labels.values(), *curve}), *_curve_boxes(scale, curve)]
    for text, point in sorted(labels.items(), key=lambda label: -len(label[0])):
        box = min(
            _label_boxes(scale.marker_box(point), len(text) * LETTER),
            key=lambda place: sum(map(place.overlaps, occupied_boxes)),
        )
        occupied_boxes.append(box)
        yield f'<text class="ink" x="{box.left:.1f}" y="{box.bottom - 3:.1f}">{escape(text)}</text>'


def _curve_boxes(scale: _PlotScale, curve: Sequence[PlotPoint]) -> Iterator[PlotBox]:
    """Yield small rectangles that cover the lines of the curve."""
    for start, end in pairwise(curve):
        ends = (scale.x(start.graphs), scale.y(start.padding), scale.x(end.graphs), scale.y(end.padding))
        x, y, to_x, to_y = ends
        step_count = max(1, round(max(abs(to_x - x), abs(to_y - y)) / MARKER))
        for step in range(step_count + 1):
            centre_x, centre_y = x + (to_x - x) * step / step_count, y + (to_y - y) * step / step_count
            yield PlotBox(centre_x - 2, centre_y - 2, centre_x + 2, centre_y + 2)


def _label_boxes(marker: PlotBox, width: float) -> Iterator[PlotBox]:
    """Yield the possible places of a label: next to its marker, then above and below, the nearest first."""
    middle_y = (marker.top + marker.bottom) / 2
    centre_x = (marker.left + marker.right) / 2
    top_pairs = [(marker.top - LINE * (distance + 1), marker.bottom + LINE * distance) for distance in range(4)]
    tops = [middle_y - LINE / 2, *(label_top for pair in top_pairs for label_top in pair)]
    for top in tops:
        for left in (marker.right + 3, marker.left - 3 - width, centre_x - width / 2):
            # Keep the label within the axes.
            x = min(max(left, LEFT + 1), WIDTH - 2 - width)
            y = min(max(top, TOP - LINE), HEIGHT - BOTTOM - LINE)
            yield PlotBox(x, y, x + width, y + LINE)
