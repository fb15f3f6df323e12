"""Which entries go: the too old, then the longest unused while room is short, and never one in use."""

from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.artifacts.recipe_cache.cleaning import SETTLING_SECONDS, Kept, to_remove

DAY = 86_400.0
ENTRIES = st.lists(
    st.builds(
        Kept,
        name=st.text("abcdef", min_size=4, max_size=4),
        size=st.integers(0, 100),
        unused_seconds=st.floats(0, 100),
        in_use=st.booleans(),
        needed=st.booleans(),
    ),
    max_size=8,
    unique_by=lambda entry: entry.name,
)


def entry(name: str, size: int = 10, days: float = 1, *, in_use: bool = False, needed: bool = True) -> Kept:
    return Kept(name, size, days * DAY, in_use, needed)


def test_with_room_and_young_entries_nothing_goes() -> None:
    assert to_remove([entry("a"), entry("b")], room=20, max_age_seconds=30 * DAY) == []


def test_an_entry_that_no_start_used_for_too_long_goes() -> None:
    assert to_remove([entry("old", days=31), entry("young")], room=100, max_age_seconds=30 * DAY) == ["old"]


def test_an_old_entry_that_a_process_runs_with_stays() -> None:
    assert to_remove([entry("old", days=31, in_use=True)], room=100, max_age_seconds=30 * DAY) == []


def test_the_longest_unused_makes_room_first() -> None:
    found = to_remove([entry("a", days=1), entry("c", days=3), entry("b", days=2)], room=10, max_age_seconds=30 * DAY)
    assert found == ["c", "b"]


def test_entry_that_no_revision_needs_goes_although_there_is_room() -> None:
    assert to_remove([entry("a", needed=False), entry("b")], room=100, max_age_seconds=30 * DAY) == ["a"]


def test_entry_without_a_revision_stays_while_a_process_uses_it() -> None:
    assert to_remove([entry("a", needed=False, in_use=True)], room=100, max_age_seconds=30 * DAY) == []


def test_entry_of_a_start_just_now_stays_whoever_needs_it() -> None:
    fresh = entry("a", days=SETTLING_SECONDS / DAY, needed=False)
    assert to_remove([fresh], room=100, max_age_seconds=30 * DAY) == []


def test_what_nobody_needs_makes_room_before_older_needed_entries() -> None:
    entries = [entry("needed", days=3), entry("not", days=1, needed=False)]
    assert to_remove(entries, room=10, max_age_seconds=30 * DAY) == ["not"]


@given(ENTRIES, st.integers(0, 400), st.floats(0, 100))
def test_what_stays_fits_or_is_in_use(entries: list[Kept], room: int, max_age: float) -> None:
    gone = to_remove(entries, room, max_age)
    left = [each for each in entries if each.name not in gone]
    assert not any(each.in_use for each in entries if each.name in gone)
    assert sum(each.size for each in left) <= room or all(each.in_use for each in left)
    assert all(each.in_use or each.unused_seconds <= max_age for each in left)
