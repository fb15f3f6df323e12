"""The journal on disk: its content, and that no state of the disk can break a warm-up."""

from pathlib import Path

import pytest

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engine_protocol.engine import RecipeKey
from gaudi_runtime.warmup.estimate import StepKind
from gaudi_runtime.warmup.journal import Journal, journal_name

KEY = RecipeKey(software="sim", card="gaudi2", model="llama", dtype="auto", parallelism="tensor 1")
STEP = (StepKind.COMPILE, BucketPhase.DECODE, Bucket(4, 1, 64))


def write_journal(folder: Path) -> Path:
    journal = Journal(str(folder), KEY)
    journal.write(STEP, 1.5)
    journal.close()
    return folder / journal_name(KEY)


def read_steps(folder: Path) -> object:
    """Return the steps that a new process reads."""
    journal = Journal(str(folder), KEY)
    journal.close()
    return journal.recipes.seconds


def test_step_survives_the_process_that_wrote_it(tmp_path: Path) -> None:
    write_journal(tmp_path / "new" / "folder")
    assert read_steps(tmp_path / "new" / "folder") == {STEP: 1.5}


def test_superseded_lines_are_removed_at_the_next_start(tmp_path: Path) -> None:
    file = write_journal(tmp_path)
    write_journal(tmp_path)
    read_steps(tmp_path)
    assert len(file.read_text().splitlines()) == 2


@pytest.mark.parametrize("content", [b"", b"not a journal\n", b"\xff\xfe\n", b"{}\n" * 3])
def test_corrupt_journal_is_ignored_with_a_reason_and_restarted(tmp_path: Path, content: bytes) -> None:
    file = write_journal(tmp_path)
    file.write_bytes(content)
    journal = Journal(str(tmp_path), KEY)
    assert journal.recipes.seconds == {}
    assert journal.warning is not None
    assert "is ignored and replaced: " in journal.warning
    journal.write(STEP, 2.0)
    journal.close()
    assert read_steps(tmp_path) == {STEP: 2.0}


def test_missing_folder_disables_only_the_journal(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    journal = Journal(str(tmp_path / "file" / "folder"), KEY)
    journal.write(STEP, 1.0)
    assert journal.warning is not None
    assert "is not kept: Not a directory" in journal.warning


def test_nothing_is_kept_without_a_folder_or_a_key(tmp_path: Path) -> None:
    for journal in (Journal(None, KEY), Journal(str(tmp_path), None)):
        journal.write(STEP, 1.0)
        assert (journal.recipes.seconds, journal.warning) == ({}, None)
    assert list(tmp_path.iterdir()) == []
