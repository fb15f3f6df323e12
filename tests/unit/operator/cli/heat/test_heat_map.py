from hypothesis import given
from hypothesis import strategies as st

from gaudi_operator.cli.heat.heat_map import Cell, HeatMap

VALUES = st.lists(st.integers(1, 10_000), min_size=1, max_size=300, unique=True).map(sorted)


def heat_map(batches: list[int], lengths: list[int]) -> HeatMap:
    return HeatMap("title", "caption", batches, lengths, {(batches[-1], lengths[-1]): Cell("x", 1.0)}.get)


@given(VALUES, VALUES, st.integers(1, 40), st.integers(1, 40))
def test_thinned_map_fits_and_keeps_the_largest(
    batches: list[int], lengths: list[int], columns: int, rows: int
) -> None:
    thinned = heat_map(batches, lengths).thinned(columns, rows)
    assert len(thinned.batches) == min(columns, len(batches))
    assert len(thinned.lengths) == min(rows, len(lengths))
    assert (thinned.batches[-1], thinned.lengths[-1]) == (batches[-1], lengths[-1])
    assert list(thinned.batches) == sorted(set(thinned.batches) & set(batches))


def test_title_of_a_thinned_map_says_what_is_shown() -> None:
    thinned = heat_map([1, 2, 4], list(range(1, 101))).thinned(8, 10)
    assert thinned.title == "title (shown: 10 of 100 lengths)"


def test_map_that_fits_stays_as_it_is() -> None:
    small = heat_map([1, 2], [128])
    assert small.thinned(2, 1) == small


def test_rows_have_a_place_for_every_batch_size() -> None:
    assert list(heat_map([1, 2], [128, 256]).rows()) == [(128, [None, None]), (256, [None, Cell("x", 1.0)])]
