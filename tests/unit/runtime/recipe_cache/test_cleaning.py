"""Which entries go: the too old, then the longest unused while room is short, and never one in use."""

from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.recipe_cache.cleaning import Kept, to_remove

DAY = 86_400.0
ENTRIES = st.lists(
    st.builds(
        Kept,
        name=st.text("abcdef", min_size=4, max_size=4),
        size=st.integers(0, 100),
        unused_seconds=st.floats(0, 100),
        in_use=st.booleans(),
    ),
    max_size=8,
    unique_by=lambda entry: entry.name,
)


def entry(name: str, size: int = 10, days: float = 1, *, in_use: bool = False) -> Kept:
    return Kept(name, size, days * DAY, in_use)


def test_with_room_and_young_entries_nothing_goes() -> None:
    assert to_remove([entry("a"), entry("b")], room=20, max_age_seconds=30 * DAY) == []


def test_an_entry_that_no_start_used_for_too_long_goes() -> None:
    assert to_remove([entry("old", days=31), entry("young")], room=100, max_age_seconds=30 * DAY) == ["old"]


def test_an_old_entry_that_a_process_runs_with_stays() -> None:
    assert to_remove([entry("old", days=31, in_use=True)], room=100, max_age_seconds=30 * DAY) == []


def test_the_longest_unused_makes_room_first() -> None:
    found = to_remove([entry("a", days=1), entry("c", days=3), entry("b", days=2)], room=10, max_age_seconds=30 * DAY)
    assert found == ["c", "b"]


@given(ENTRIES, st.integers(0, 400), st.floats(0, 100))
def test_what_stays_fits_or_is_in_use(entries: list[Kept], room: int, max_age: float) -> None:
    gone = to_remove(entries, room, max_age)
    left = [each for each in entries if each.name not in gone]
    assert not any(each.in_use for each in entries if each.name in gone)
    assert sum(each.size for each in left) <= room or all(each.in_use for each in left)
    assert all(each.in_use or each.unused_seconds <= max_age for each in left)
