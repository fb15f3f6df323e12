"""The plot of the number of graphs against the padding."""

from itertools import combinations
from xml.etree.ElementTree import Element, fromstring

import pytest

from gaudi_operator.cli.plan.plot import HEIGHT, LETTER, LINE, WIDTH, PlotBox, PlotPoint, plot_svg

SVG = "{http://www.w3.org/2000/svg}"
POINTS = {
    "Exponential": PlotPoint(138, 1.16),
    "Linear (97.1 % covered)": PlotPoint(281, 1.11),
    "PaddingAware": PlotPoint(172, 1.12),
    "Optimal": PlotPoint(45, 1.163),
}
CURVE = [
    PlotPoint(11, 1.6),
    PlotPoint(16, 1.45),
    PlotPoint(22, 1.31),
    PlotPoint(31, 1.22),
    POINTS["Optimal"],
    PlotPoint(90, 1.08),
]


def drawn(points: dict[str, PlotPoint], curve: list[PlotPoint]) -> Element:
    return fromstring(plot_svg(points, curve, "Optimal"))  # noqa: S314


def labels(picture: Element) -> dict[str, PlotBox]:
    """Return the boxes of the point labels. The number of letters determines the width of a box."""
    return {
        text: PlotBox(x, y - LINE + 3, x + LETTER * len(text), y + 3)
        for each in picture.iter(f"{SVG}text")
        if each.get("class") == "ink" and each.get("text-anchor") is None
        if (text := each.text or "")
        for x, y in [(float(each.attrib["x"]), float(each.attrib["y"]))]
    }


@pytest.mark.parametrize(
    ("points", "curve"),
    [
        (POINTS, CURVE),
        ({**POINTS, "File": PlotPoint(140, 1.161), "Exponential": PlotPoint(139, 1.163)}, CURVE),
        ({"Optimal": PlotPoint(2, 1.0)}, [PlotPoint(2, 1.0)]),
        ({"Linear": PlotPoint(20_000, 1.0), "Optimal": PlotPoint(3, 80.0)}, [PlotPoint(2, 90.0), PlotPoint(3, 80.0)]),
    ],
)
def test_labels_do_not_overlap_and_stay_inside_the_svg(points: dict[str, PlotPoint], curve: list[PlotPoint]) -> None:
    boxes = labels(drawn(points, curve))
    assert len(boxes) == len({*points.values(), *curve})
    assert not any(one.overlaps(other) for one, other in combinations(boxes.values(), 2))
    assert all(
        each.left >= 0 and each.right <= WIDTH and 0 <= each.top <= each.bottom <= HEIGHT for each in boxes.values()
    )


def test_graphs_increase_to_the_right_and_padding_upwards() -> None:
    (curve,) = drawn(POINTS, CURVE).iter(f"{SVG}polyline")
    places = [tuple(map(float, each.split(","))) for each in curve.attrib["points"].split()]
    assert places == sorted(places)
    assert [y for _, y in places] == sorted(y for _, y in places)


def test_horizontal_axis_is_logarithmic() -> None:
    (curve,) = drawn({}, [PlotPoint(10, 2.0), PlotPoint(20, 1.5), PlotPoint(40, 1.2)]).iter(f"{SVG}polyline")
    first, second, third = (float(each.split(",")[0]) for each in curve.attrib["points"].split())
    assert second - first == pytest.approx(third - second, abs=0.2)


def test_plot_without_points_is_a_valid_svg() -> None:
    assert drawn({}, []).tag == f"{SVG}svg"


def test_names_are_escaped() -> None:
    assert any("<File>" in name for name in labels(drawn({"<File>": PlotPoint(9, 1.2)}, [])))
