import io

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from demo.example import MANIFEST, SHORT_PROMPTS
from demo.plan import merge, show_plan, show_prompt_change

JSON = st.recursive(
    st.integers() | st.text() | st.lists(st.integers()),
    lambda below: st.dictionaries(st.sampled_from("abc"), below),
)
DOCUMENTS = st.dictionaries(st.sampled_from("abc"), JSON)


def screen() -> Console:
    return Console(file=io.StringIO(), width=80, color_system=None)


def shown(console: Console) -> str:
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_demo_shows_its_buckets_in_80_columns() -> None:
    console = screen()
    show_plan(MANIFEST, console)
    assert "4 prompt buckets" in shown(console)
    assert "3 decode buckets" in shown(console)
    assert max(map(len, shown(console).splitlines())) <= 80


def test_demo_shows_the_prompt_buckets_that_its_upgrade_adds() -> None:
    console = screen()
    show_prompt_change(MANIFEST, SHORT_PROMPTS, console)
    assert shown(console) == "4 -> 5 prompt buckets: 1 added, 0 dropped\n"


@given(DOCUMENTS, DOCUMENTS)
def test_merging_a_patch_is_idempotent(document: dict[str, object], patch: dict[str, object]) -> None:
    assert merge(merge(document, patch), patch) == merge(document, patch)


@given(DOCUMENTS)
def test_empty_patch_returns_the_same_document(document: dict[str, object]) -> None:
    assert merge(document, {}) == document


def test_patch_is_merged_recursively_and_null_removes_fields() -> None:
    assert merge({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": None, "e": 4}}) == {"a": {"c": 2, "e": 4}, "d": 3}
