"""Fetching a repository of a hub into a folder: the chosen files, their order, and the effect of a stop."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from gaudi_runtime.artifacts.sources.listing import ListedFile, Listing, select_listed_files
from gaudi_runtime.process.signals import Stopped
from tests.support.hub_server import COMMIT
from tests.unit.runtime.artifacts.sources.conftest import FILES, WEIGHTS, Site


def test_snapshot_has_the_files_of_the_repository(site: Site) -> None:
    folder = site.fetch()
    found = {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    assert found == FILES


def test_snapshot_is_named_by_its_commit(site: Site) -> None:
    assert site.fetch("main") == site.root / "tiny--model" / COMMIT


def test_file_in_a_nested_folder_is_fetched(site: Site) -> None:
    site.hub.files["a/b/c.json"] = b"{}"
    assert (site.fetch() / "a" / "b" / "c.json").read_bytes() == b"{}"


def test_content_is_requested_without_compression(site: Site) -> None:
    site.fetch()
    assert set(site.hub.encodings) == {"identity"}


def test_weights_in_other_formats_are_not_fetched(site: Site) -> None:
    site.hub.files |= {
        "pytorch_model.bin": b"pickle",
        "consolidated.safetensors": WEIGHTS,
        "original/model--00001-of-00002.safetensors": WEIGHTS,
        "onnx/model.onnx_data": b"weights",
        "onnx/model.onnx.data": b"weights",
    }
    assert {file.name for file in site.fetch().iterdir()} == {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "notes",
    }


def test_largest_file_is_fetched_first() -> None:
    files = tuple(ListedFile(f"{size}.safetensors", size, "") for size in (1, 3, 2))
    assert [each.size for each in select_listed_files("a/b", Listing(COMMIT, files))] == [3, 2, 1]


def test_consolidated_weights_are_fetched_if_no_others_exist(site: Site) -> None:
    site.hub.files["consolidated.safetensors"] = site.hub.files.pop("model.safetensors")
    assert (site.fetch() / "consolidated.safetensors").read_bytes() == WEIGHTS


def test_other_files_of_the_original_folder_are_fetched(site: Site) -> None:
    site.hub.files["original/tokenizer.model"] = b"{}"
    assert (site.fetch() / "original" / "tokenizer.model").read_bytes() == b"{}"


def test_token_is_sent_to_the_hub_only(site: Site) -> None:
    site.hub.token = "hf_secret"
    site.fetch(token="hf_secret")
    seen = {path.startswith("/content/"): authorization for path, _, authorization in site.hub.requests}
    assert seen == {False: "Bearer hf_secret", True: None}


def test_only_the_snapshot_and_its_metadata_remain(site: Site) -> None:
    site.fetch()
    kept = {COMMIT, f"{COMMIT}.files", f"{COMMIT}.use", "holder", "lock"}
    assert {file.name for file in (site.root / "tiny--model").iterdir()} == kept


def test_stop_ends_a_running_download(site: Site) -> None:
    site.hub.hold = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(site.fetch)
        assert site.hub.reached.wait(30)
        site.stop.set()
        site.hub.hold.set()
        with pytest.raises(Stopped):
            running.result(30)


def test_stop_ends_the_pause_between_attempts(site: Site) -> None:
    site.hub.statuses = [503]
    site.stop.set()
    with pytest.raises(Stopped):
        site.fetch()
