"""Safetensors files are validated by their headers before an engine loads them."""

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.artifacts.sources.weights import INDEX_FILE, check_weights
from gaudi_runtime.errors import ModelNotFound, ModelUnreadable
from tests.unit.runtime.artifacts.sources.safetensors_file import safetensors, with_header

ONE, TWO = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
MiB = 1024 * 1024


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint in two files with an index."""
    (tmp_path / ONE).write_bytes(safetensors({"a": bytes(8), "b": bytes(8)}))
    (tmp_path / TWO).write_bytes(safetensors({"c": bytes(MiB)}))
    (tmp_path / INDEX_FILE).write_text(json.dumps({"weight_map": {"a": ONE, "b": ONE, "c": TWO}}))
    return tmp_path


def test_complete_checkpoint_passes_with_progress_for_each_file(folder: Path) -> None:
    seen: list[None] = []
    check_weights(folder, lambda: seen.append(None))
    assert len(seen) == 2


def test_file_missing_from_the_index_listing_is_reported(folder: Path) -> None:
    (folder / TWO).unlink()
    with pytest.raises(ModelNotFound) as raised:
        check_weights(folder)
    assert str(raised.value) == (
        f"{folder / TWO} is missing, but {INDEX_FILE} lists it. Download the complete checkpoint."
    )


def damaged(file: Path, why: str) -> str:
    return f"{file} is damaged: {why}. Download a new copy of the file."


def cut_off(here: str, stated: int) -> str:
    return f"the file has {here}, but its header requires {stated} bytes"


def test_truncated_file_is_reported_with_its_size(folder: Path) -> None:
    whole = (folder / TWO).read_bytes()
    (folder / TWO).write_bytes(whole[: MiB // 2])
    with pytest.raises(ModelUnreadable) as raised:
        check_weights(folder)
    assert str(raised.value) == damaged(folder / TWO, cut_off(f"512 KiB ({MiB // 2} bytes)", len(whole)))


def test_tensors_missing_from_a_file_are_reported(folder: Path) -> None:
    (folder / ONE).write_bytes(safetensors({"b": bytes(8)}))
    with pytest.raises(ModelUnreadable, match=r"lacks 1 tensor that .* lists, such as a, because files of diff"):
        check_weights(folder)


def test_file_outside_of_the_index_is_ignored(folder: Path) -> None:
    (folder / "consolidated.safetensors").write_bytes(b"")
    check_weights(folder)


def test_all_safetensors_files_are_checked_without_an_index(tmp_path: Path) -> None:
    (tmp_path / "adapter_model.safetensors").write_bytes(b"")
    with pytest.raises(ModelUnreadable, match=r"adapter_model\.safetensors is damaged"):
        check_weights(tmp_path)


def test_folder_without_safetensors_files_passes(tmp_path: Path) -> None:
    check_weights(tmp_path)
    check_weights(tmp_path / "missing")


def test_empty_tensor_is_complete(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(safetensors({"nothing": b"", "weight": b"1"}))
    check_weights(tmp_path)


NO_HEADER = "the file does not begin with a header"
UNREADABLE = "the header cannot be parsed"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", NO_HEADER),
        (b"\xff" * 4096, NO_HEADER),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
            "the file is a git-lfs pointer instead of the weights",
        ),
        (with_header(b"{"), UNREADABLE),
        (with_header(b"[]"), UNREADABLE),
        (with_header(b'{"a": {}}'), UNREADABLE),
        (with_header(b'{"a": {"data_offsets": [8, 0]}}'), "the header is inconsistent"),
        (with_header(b"{}", b"more"), cut_off("14 B (14 bytes)", 10)),
    ],
    ids=["empty", "noise", "pointer", "cut", "list", "no_offsets", "backwards", "too_long"],
)
def test_damaged_file_is_reported_with_its_damage(content: bytes, why: str, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(ModelUnreadable) as raised:
        check_weights(tmp_path)
    assert str(raised.value) == damaged(tmp_path / "model.safetensors", why)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"weight_map": []}'])
def test_invalid_index_is_reported(text: str, folder: Path) -> None:
    (folder / INDEX_FILE).write_text(text)
    with pytest.raises(ModelUnreadable, match=r"index\.json is not an index of safetensors files"):
        check_weights(folder)


def test_unreadable_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").mkdir()
    with pytest.raises(
        ModelUnreadable,
        match=r"cannot be read: Is a directory\. .* and whether the user of the pod may read the file\.$",
    ):
        check_weights(tmp_path)


WHOLE = safetensors({"a": bytes(64), "b": bytes(64)})


@given(end=st.integers(min_value=0, max_value=len(WHOLE) - 1))
def test_truncation_at_any_byte_is_detected(end: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.getbasetemp() / "model.safetensors"
    file.write_bytes(WHOLE[:end])
    with pytest.raises(ModelUnreadable):
        check_weights(file.parent)


@given(header=st.binary(max_size=64) | st.text(alphabet='{}[]":,0 data_offsets', max_size=64).map(str.encode))
def test_any_header_passes_or_is_refused_as_unreadable(header: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.getbasetemp() / "model.safetensors"
    file.write_bytes(with_header(header))
    with suppress(ModelUnreadable):
        check_weights(file.parent)
