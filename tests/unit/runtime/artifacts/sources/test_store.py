"""What is counted of a folder that another process works in."""

import shutil
from pathlib import Path

import pytest

from gaudi_runtime.artifacts.sources import store


def test_folder_moved_away_while_it_is_counted_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / "model" / name).mkdir(parents=True)
        (tmp_path / "model" / name / "file").write_bytes(b"1")

    def gone_after_the_first(_: Path) -> int:
        shutil.rmtree(tmp_path / "model", ignore_errors=True)
        return 1

    monkeypatch.setattr(store, "bytes_of", gone_after_the_first)
    assert store.bytes_below(tmp_path / "model") == 1
