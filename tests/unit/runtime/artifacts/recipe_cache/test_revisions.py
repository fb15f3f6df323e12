"""The decision whether an entry is still needed, based on the marks of starts that used the entry."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.artifacts.recipe_cache.revisions import (
    RecipeRevisionId,
    is_needed_by_revisions,
    parse_revision_mark_name,
    revision_mark_name,
)
from gaudi_runtime.contract.config import KeptRevisions

DIGEST = "0123456789abcdef"
OURS, OTHERS = "uid-of-tiny", "uid-of-other"
KEPT = KeptRevisions(resource=OURS, revisions=("r1", "r2"))
USERS = st.builds(
    RecipeRevisionId, resource=st.sampled_from((OURS, OTHERS)), revision=st.sampled_from(("r1", "r2", "r3", "r4"))
)


def test_entry_of_a_kept_revision_is_needed() -> None:
    assert is_needed_by_revisions([RecipeRevisionId(OURS, "r2")], KEPT)


def test_entry_of_only_deleted_revisions_is_not_needed() -> None:
    assert not is_needed_by_revisions([RecipeRevisionId(OURS, "r3"), RecipeRevisionId(OURS, "r4")], KEPT)


def test_entry_is_needed_if_one_of_its_revisions_is_kept() -> None:
    assert is_needed_by_revisions([RecipeRevisionId(OURS, "r3"), RecipeRevisionId(OURS, "r1")], KEPT)


def test_entry_used_by_another_resource_counts_as_needed() -> None:
    assert is_needed_by_revisions([RecipeRevisionId(OTHERS, "r3")], KEPT)
    assert is_needed_by_revisions([RecipeRevisionId(OTHERS, "r3"), RecipeRevisionId(OURS, "r3")], KEPT)


def test_unmarked_entry_counts_as_needed() -> None:
    assert is_needed_by_revisions([], KEPT)


def test_start_without_a_revision_keeps_its_entry() -> None:
    assert is_needed_by_revisions([None, RecipeRevisionId(OURS, "r3")], KEPT)


@given(st.lists(st.none() | USERS, max_size=4))
def test_all_entries_are_needed_if_kept_revisions_are_unknown(users: list[RecipeRevisionId | None]) -> None:
    assert is_needed_by_revisions(users, None)


@given(st.none() | USERS)
def test_mark_reads_back_its_user(user: RecipeRevisionId | None) -> None:
    assert parse_revision_mark_name(revision_mark_name(DIGEST, user)) == (DIGEST, user)


@pytest.mark.parametrize("name", ["lock", f"{DIGEST}.used", f"{DIGEST}.a.use", f"{DIGEST}.a.b.c.use", "notes.use"])
def test_other_files_are_not_marks(name: str) -> None:
    assert parse_revision_mark_name(name) is None
