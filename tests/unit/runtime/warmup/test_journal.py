"""The journal of earlier warm-ups: its lines, its keys, the compile time saved by a recipe, and faults of the disk."""

from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engine_protocol.engine import RecipeKey
from gaudi_runtime.warmup.estimate import EstimateStepKind
from gaudi_runtime.warmup.journal import (
    Journal,
    JournalRecipes,
    JournalUnusable,
    format_journal,
    format_journal_header,
    format_journal_step,
    journal_name,
    parse_journal,
)

KEY = RecipeKey(software="1.22 hpuGraphs", card="gaudi2", model="llama", dtype="bfloat16", parallelism="tensor 1")
BUCKET = Bucket(4, 512, 0)
COMPILED = (EstimateStepKind.COMPILE, BucketPhase.PROMPT, BUCKET)
STEPS = st.tuples(
    st.sampled_from(EstimateStepKind), st.sampled_from(BucketPhase), st.builds(Bucket, *[st.integers(0, 10**6)] * 3)
)


@given(st.dictionaries(STEPS, st.integers(0, 10**9).map(lambda n: n / 10**6), max_size=20))
def test_journal_round_trips(seconds: dict[tuple[EstimateStepKind, BucketPhase, Bucket], float]) -> None:
    assert parse_journal(format_journal(JournalRecipes(seconds), KEY), KEY).seconds == pytest.approx(seconds)


def test_last_line_of_a_step_has_precedence() -> None:
    text = format_journal_header(KEY) + format_journal_step(COMPILED, 9) + format_journal_step(COMPILED, 3)
    assert parse_journal(text, KEY).seconds == {COMPILED: 3}


def test_truncated_last_line_is_ignored() -> None:
    text = format_journal_header(KEY) + format_journal_step(COMPILED, 9) + format_journal_step(COMPILED, 3)[:-4]
    assert parse_journal(text, KEY).seconds == {COMPILED: 9}


def test_compiled_shape_will_be_loaded_and_others_compiled() -> None:
    recipes = JournalRecipes({COMPILED: 1.0})
    assert recipes.step_kind(BucketPhase.PROMPT, BUCKET) is EstimateStepKind.LOAD
    assert recipes.step_kind(BucketPhase.DECODE, BUCKET) is EstimateStepKind.COMPILE


@pytest.mark.parametrize("field", [field.name for field in fields(RecipeKey)])
def test_each_part_of_the_key_changes_the_journal_name(field: str) -> None:
    other = replace(KEY, **{field: "another"})
    assert journal_name(other) != journal_name(KEY)
    with pytest.raises(JournalUnusable, match="the first line does not match this software"):
        parse_journal(format_journal_header(other), KEY)


@pytest.mark.parametrize(
    "wrong",
    [
        "not json",
        "[]",
        "null",
        '{"step":"compile"}',
        '{"step":"fly","phase":"prompt","bucket":[1,1,0],"seconds":1}',
        '{"step":"compile","phase":"prompt","bucket":[1,1],"seconds":1}',
        '{"step":"compile","phase":"prompt","bucket":[1,true,-1],"seconds":1}',
        '{"step":"compile","phase":"prompt","bucket":[1,1,0],"seconds":-1}',
        '{"step":"compile","phase":"prompt","bucket":[1,1,0],"seconds":NaN}',
        '{"step":"compile","phase":"prompt","bucket":[1,1,0],"seconds":Infinity}',
        "[" * 5000,
    ],
)
def test_journal_with_an_invalid_line_is_refused_with_its_number(wrong: str) -> None:
    with pytest.raises(JournalUnusable, match="line 3"):
        parse_journal(format_journal_header(KEY) + format_journal_step(COMPILED, 1) + wrong + "\n", KEY)


@given(st.text(max_size=200))
def test_any_text_is_a_journal_or_unusable(text: str) -> None:
    with suppress(JournalUnusable):
        assert parse_journal(text, KEY).seconds == {}


def test_saved_seconds_of_a_load_are_compile_minus_load_time() -> None:
    assert (
        JournalRecipes({COMPILED: 9.0}).saved_seconds((EstimateStepKind.LOAD, BucketPhase.PROMPT, BUCKET), 2.0) == 7.0
    )


def test_compiled_step_saves_zero_seconds() -> None:
    assert (
        JournalRecipes({COMPILED: 9.0}).saved_seconds((EstimateStepKind.COMPILE, BucketPhase.DECODE, BUCKET), 2.0)
        == 0.0
    )


def test_own_seconds_have_precedence_over_those_of_others() -> None:
    decode = (EstimateStepKind.COMPILE, BucketPhase.DECODE, BUCKET)
    both = JournalRecipes({COMPILED: 1.0}).merge_with(JournalRecipes({COMPILED: 2.0, decode: 3.0}))
    assert both.seconds == {COMPILED: 1.0, decode: 3.0}


SIM_KEY = RecipeKey(software="sim", card="gaudi2", model="llama", dtype="auto", parallelism="tensor 1")


SIM_STEP = (EstimateStepKind.COMPILE, BucketPhase.DECODE, Bucket(4, 1, 64))


def write_journal(folder: Path) -> Path:
    journal = Journal(str(folder), SIM_KEY)
    journal.write(SIM_STEP, 1.5)
    journal.close()
    return folder / journal_name(SIM_KEY)


def read_steps(folder: Path) -> object:
    """Return the steps that a new process reads from the journal."""
    journal = Journal(str(folder), SIM_KEY)
    journal.close()
    return journal.recipes.seconds


def test_step_is_read_by_a_later_process(tmp_path: Path) -> None:
    write_journal(tmp_path / "new" / "folder")
    assert read_steps(tmp_path / "new" / "folder") == {SIM_STEP: 1.5}


def test_superseded_lines_are_removed_at_the_next_start(tmp_path: Path) -> None:
    file = write_journal(tmp_path)
    write_journal(tmp_path)
    read_steps(tmp_path)
    assert len(file.read_text().splitlines()) == 2


@pytest.mark.parametrize("content", [b"", b"not a journal\n", b"\xff\xfe\n", b"{}\n" * 3])
def test_corrupt_journal_is_ignored_with_a_reason_and_restarted(tmp_path: Path, content: bytes) -> None:
    file = write_journal(tmp_path)
    file.write_bytes(content)
    journal = Journal(str(tmp_path), SIM_KEY)
    assert journal.recipes.seconds == {}
    assert journal.warning is not None
    assert "is ignored and replaced: " in journal.warning
    journal.write(SIM_STEP, 2.0)
    journal.close()
    assert read_steps(tmp_path) == {SIM_STEP: 2.0}


def test_unusable_folder_causes_a_warning_without_an_exception(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    journal = Journal(str(tmp_path / "file" / "folder"), SIM_KEY)
    journal.write(SIM_STEP, 1.0)
    assert journal.warning is not None
    assert "cannot be used: Not a directory" in journal.warning


def test_no_journal_is_written_without_a_folder_or_a_key(tmp_path: Path) -> None:
    for journal in (Journal(None, SIM_KEY), Journal(str(tmp_path), None)):
        journal.write(SIM_STEP, 1.0)
        assert (journal.recipes.seconds, journal.warning) == ({}, None)
    assert list(tmp_path.iterdir()) == []
