"""Fetching a repository of a hub into a folder with the checkpoint's files."""

from gaudi_runtime.artifacts.sources.listing import Listing, RemoteFile, wanted
from tests.support.hub_server import COMMIT
from tests.unit.runtime.artifacts.sources.conftest import FILES, WEIGHTS, Site


def test_snapshot_has_the_files_of_the_repository(site: Site) -> None:
    folder = site.fetch()
    found = {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    assert found == FILES


def test_snapshot_is_named_by_its_commit(site: Site) -> None:
    assert site.fetch("main") == site.root / "tiny--model" / COMMIT


def test_complete_commit_is_served_without_the_hub(site: Site) -> None:
    folder = site.fetch()
    site.hub.requests.clear()
    assert site.fetch() == folder
    assert site.hub.requests == []


def test_branch_is_resolved_again_but_files_are_fetched_once(site: Site) -> None:
    site.fetch("main")
    site.hub.requests.clear()
    site.fetch("main")
    assert [path for path, _, _ in site.hub.requests] == ["/api/models/tiny/model/revision/main"]


def test_cached_branch_is_not_validated_again(site: Site) -> None:
    site.fetch("main")
    site.progress.clear()
    site.fetch("main")
    assert site.progress == []


def test_file_in_a_folder_of_a_folder_is_fetched(site: Site) -> None:
    site.hub.files["a/b/c.json"] = b"{}"
    assert (site.fetch() / "a" / "b" / "c.json").read_bytes() == b"{}"


def test_content_is_requested_without_compression(site: Site) -> None:
    site.fetch()
    assert set(site.hub.encodings) == {"identity"}


def test_moved_branch_is_fetched_again(site: Site) -> None:
    before = site.fetch("main")
    site.hub.commit, site.hub.files["config.json"] = "d" * 40, b"{}"
    after = site.fetch("main")
    assert (before / "config.json").read_bytes() == FILES["config.json"]
    assert (after / "config.json").read_bytes() == b"{}"


def test_branch_is_served_from_disk_with_warning_without_hub(site: Site) -> None:
    folder = site.fetch("main")
    site.hub.statuses = [503]
    assert site.fetch("main") == folder
    assert site.warnings == [
        f"The hub {site.endpoint} answers with HTTP 503. Commit {COMMIT}, which was fetched earlier, is used for main."
    ]


def test_progress_counts_bytes_from_nothing_to_all(site: Site) -> None:
    site.fetch()
    done, total = [each.done_bytes for each in site.progress], sum(map(len, FILES.values()))
    assert (done[0], done[-1]) == (0, total)
    assert done == sorted(done)
    assert {each.total_bytes for each in site.progress} == {total}


def test_weights_in_other_formats_are_not_fetched(site: Site) -> None:
    site.hub.files |= {"pytorch_model.bin": b"pickle", "consolidated.safetensors": WEIGHTS}
    assert {file.name for file in site.fetch().iterdir()} == {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "notes",
    }


def test_largest_file_is_fetched_first() -> None:
    files = tuple(RemoteFile(f"{size}.safetensors", size, "") for size in (1, 3, 2))
    assert [each.size for each in wanted("a/b", Listing(COMMIT, files))] == [3, 2, 1]


def test_original_layout_is_fetched_if_it_is_the_only_one(site: Site) -> None:
    site.hub.files["consolidated.safetensors"] = site.hub.files.pop("model.safetensors")
    assert (site.fetch() / "consolidated.safetensors").read_bytes() == WEIGHTS


def test_token_is_sent_to_the_hub_only(site: Site) -> None:
    site.hub.token = "hf_secret"
    site.fetch(token="hf_secret")
    seen = {path.startswith("/content/"): authorization for path, _, authorization in site.hub.requests}
    assert seen == {False: "Bearer hf_secret", True: None}


def test_only_the_snapshot_remains(site: Site) -> None:
    site.fetch()
    kept = {COMMIT, f"{COMMIT}.files", f"{COMMIT}.use", "holder", "lock"}
    assert {file.name for file in (site.root / "tiny--model").iterdir()} == kept
