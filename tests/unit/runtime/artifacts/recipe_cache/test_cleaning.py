"""The choice of entries to remove: first expired entries, then the least recently used, never entries in use."""

from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.artifacts.recipe_cache.cleaning import SETTLING_SECONDS, CleaningCandidate, select_entries_to_clean

DAY = 86_400.0
ENTRIES = st.lists(
    st.builds(
        CleaningCandidate,
        name=st.text("abcdef", min_size=4, max_size=4),
        size=st.integers(0, 100),
        unused_seconds=st.floats(0, 100),
        in_use=st.booleans(),
        needed=st.booleans(),
    ),
    max_size=8,
    unique_by=lambda entry: entry.name,
)


def entry(
    name: str, size: int = 10, days: float = 1, *, in_use: bool = False, needed: bool = True
) -> CleaningCandidate:
    return CleaningCandidate(name, size, days * DAY, in_use, needed)


def test_recent_entries_stay_while_space_suffices() -> None:
    assert select_entries_to_clean([entry("a"), entry("b")], max_bytes=20, max_age_seconds=30 * DAY) == []


def test_entry_unused_for_too_long_is_removed() -> None:
    assert select_entries_to_clean(
        [entry("old", days=31), entry("young")], max_bytes=100, max_age_seconds=30 * DAY
    ) == ["old"]


def test_old_entry_in_use_by_a_process_stays() -> None:
    assert select_entries_to_clean([entry("old", days=31, in_use=True)], max_bytes=100, max_age_seconds=30 * DAY) == []


def test_least_recently_used_entry_is_removed_first() -> None:
    found = select_entries_to_clean(
        [entry("a", days=1), entry("c", days=3), entry("b", days=2)], max_bytes=10, max_age_seconds=30 * DAY
    )
    assert found == ["c", "b"]


def test_unneeded_entry_is_removed_despite_free_space() -> None:
    assert select_entries_to_clean([entry("a", needed=False), entry("b")], max_bytes=100, max_age_seconds=30 * DAY) == [
        "a"
    ]


def test_entry_without_a_revision_stays_while_in_use() -> None:
    assert (
        select_entries_to_clean([entry("a", needed=False, in_use=True)], max_bytes=100, max_age_seconds=30 * DAY) == []
    )


def test_unneeded_entry_of_a_recent_start_is_kept() -> None:
    fresh = entry("a", days=SETTLING_SECONDS / DAY, needed=False)
    assert select_entries_to_clean([fresh], max_bytes=100, max_age_seconds=30 * DAY) == []


def test_unneeded_entries_are_removed_before_older_needed_ones() -> None:
    entries = [entry("needed", days=3), entry("not", days=1, needed=False)]
    assert select_entries_to_clean(entries, max_bytes=10, max_age_seconds=30 * DAY) == ["not"]


@given(ENTRIES, st.integers(0, 400), st.floats(0, 100))
def test_remaining_entries_fit_the_volume_or_are_in_use(
    entries: list[CleaningCandidate], room: int, max_age: float
) -> None:
    gone = select_entries_to_clean(entries, room, max_age)
    left = [each for each in entries if each.name not in gone]
    assert not any(each.in_use for each in entries if each.name in gone)
    assert sum(each.size for each in left) <= room or all(each.in_use for each in left)
    assert all(each.in_use or each.unused_seconds <= max_age for each in left)
