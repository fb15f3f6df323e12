"""Faults between a hub and a disk, with the error messages."""

import errno
import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gaudi_runtime.errors import (
    ConfigError,
    DiskFull,
    HubUnreachable,
    ModelAccessDenied,
    ModelNotFound,
    ModelUnreadable,
    RuntimeStartError,
    UnsupportedModel,
)
from gaudi_runtime.process.signals import Stopped
from tests.support.hub_server import COMMIT
from tests.unit.runtime.artifacts.sources.conftest import WEIGHTS, Site

HALF = len(WEIGHTS) // 2


def test_broken_download_resumes_where_it_broke(site: Site) -> None:
    site.hub.break_after = [HALF]
    folder = site.fetch()
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    assert site.hub.downloads() == [("model.safetensors", None), ("model.safetensors", f"bytes={HALF}-")]


def test_next_process_resumes_the_download(site: Site) -> None:
    site.hub.break_after = [HALF]
    with pytest.raises(HubUnreachable):
        site.fetch(tries=0)
    site.fetch()
    assert site.hub.downloads()[-1] == ("model.safetensors", f"bytes={HALF}-")


def test_server_without_ranges_restarts_the_download(site: Site) -> None:
    site.hub.break_after, site.hub.ranges = [HALF], False
    assert (site.fetch() / "model.safetensors").read_bytes() == WEIGHTS
    assert site.hub.downloads() == [("model.safetensors", None), ("model.safetensors", f"bytes={HALF}-")]


def test_discarded_bytes_are_no_longer_counted(site: Site) -> None:
    site.hub.break_after, site.hub.ranges = [HALF], False
    site.fetch()
    total = sum(map(len, site.hub.files.values()))
    assert max(each.done_bytes for each in site.progress) == site.progress[-1].done_bytes == total


def test_complete_file_is_not_requested(site: Site) -> None:
    part = site.root / "tiny--model" / f"{COMMIT}.parts" / "model.safetensors"
    part.parent.mkdir(parents=True)
    part.write_bytes(WEIGHTS)
    assert (site.fetch() / "model.safetensors").read_bytes() == WEIGHTS
    assert site.hub.downloads() == []


def test_finished_files_of_an_ended_process_are_kept(site: Site) -> None:
    finished = site.root / "tiny--model" / f"{COMMIT}.partial" / "model.safetensors"
    finished.parent.mkdir(parents=True)
    finished.write_bytes(WEIGHTS)
    assert (site.fetch() / "model.safetensors").read_bytes() == WEIGHTS
    assert site.hub.downloads() == []


def test_oversized_file_is_fetched_again(site: Site) -> None:
    site.hub.excess = 1
    assert (site.fetch() / "model.safetensors").read_bytes() == WEIGHTS
    assert site.hub.downloads() == [("model.safetensors", None)] * 2
    size = len(WEIGHTS)
    came = f"model.safetensors of repository tiny/model ended after {size + 4} of {size} bytes."
    assert site.warnings == [f"{came} The next attempt is in 0 s."]


def test_unavailable_hub_is_retried_and_reported(site: Site) -> None:
    site.hub.statuses = [503, 429]
    site.fetch()
    assert site.warnings == [
        f"The hub {site.endpoint} answers with HTTP {status}. The next attempt is in 0 s." for status in (503, 429)
    ]


def test_hub_that_stays_unavailable_is_reported(site: Site) -> None:
    site.hub.statuses = [503] * 4
    with pytest.raises(HubUnreachable, match=r"^The hub http://127\.0\.0\.1:\d+ answers with HTTP 503\.$"):
        site.fetch(tries=3)


def test_received_bytes_reset_the_retry_budget(site: Site) -> None:
    site.hub.break_after = [HALF // 4, HALF // 2, HALF]
    assert (site.fetch(tries=1) / "model.safetensors").read_bytes() == WEIGHTS


def test_refused_connection_means_the_hub_is_unreachable(site: Site) -> None:
    site.endpoint = "http://127.0.0.1:9"
    with pytest.raises(HubUnreachable, match=r"is not reachable \(.*Connection refused\)"):
        site.fetch(tries=0)


def test_error_that_may_quote_addresses_is_reported_by_type(site: Site) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: listener.accept()[0].close())
        site.endpoint = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(HubUnreachable, match=r"is not reachable \([A-Za-z]+Error\)\.$"):
            site.fetch(tries=0)


def test_page_of_a_proxy_is_not_a_hub(site: Site) -> None:
    site.hub.statuses = [200]
    with pytest.raises(HubUnreachable, match="check HF_ENDPOINT"):
        site.fetch(tries=0)


@pytest.mark.parametrize("commit", ["../../elsewhere", "", "d" * 40], ids=["path", "nothing", "other"])
def test_answer_about_another_commit_is_not_followed(commit: str, site: Site) -> None:
    site.hub.commit = commit
    with pytest.raises(HubUnreachable, match="answers with commit"):
        site.fetch(tries=0)


def without_token(site: Site) -> None:
    site.hub.token, site.hub.gated = "right", True
    site.fetch()


def without_rights(site: Site) -> None:
    site.hub.token, site.hub.gated = "right", True
    site.fetch(token="other")


def with_a_wrong_token(site: Site) -> None:
    site.hub.token = "right"
    site.fetch(token="wrong")


def refused_without_a_token(site: Site) -> None:
    site.hub.statuses = [403]
    site.fetch()


def private(site: Site) -> None:
    site.hub.token = "right"
    site.fetch()


def unknown_repository(site: Site) -> None:
    site.fetch(repo="tiny/other", token="any")


def unknown_revision(site: Site) -> None:
    site.fetch("v9")


def no_safetensors(site: Site) -> None:
    del site.hub.files["model.safetensors"]
    site.fetch()


def path_that_leads_out(site: Site) -> None:
    site.hub.files["../evil.safetensors"] = b""
    site.fetch()


REFUSED: list[tuple[Callable[[Site], None], type[RuntimeStartError], str]] = [
    (
        without_token,
        ModelAccessDenied,
        "Repository tiny/model is gated: accept its terms on the hub, and name a Secret with a token.",
    ),
    (
        without_rights,
        ModelAccessDenied,
        "Repository tiny/model is gated and the token's account has no access: accept its terms there.",
    ),
    (
        with_a_wrong_token,
        ModelAccessDenied,
        "The hub HUB refuses the access token for repository tiny/model (HTTP 401): renew it.",
    ),
    (
        refused_without_a_token,
        ModelAccessDenied,
        "The hub HUB needs an access token for repository tiny/model (HTTP 403): name its Secret.",
    ),
    (
        private,
        ModelNotFound,
        "The hub HUB has no public repository tiny/model: check its name, or name the Secret of a token.",
    ),
    (
        unknown_repository,
        ModelNotFound,
        "The hub HUB has no repository tiny/other that the token may read: check name and token.",
    ),
    (unknown_revision, ModelNotFound, "Repository tiny/model has no revision v9."),
    (
        no_safetensors,
        UnsupportedModel,
        "Repository tiny/model has no safetensors files: choose a repository with such files.",
    ),
    (
        path_that_leads_out,
        ModelUnreadable,
        "Repository tiny/model lists the file '../evil.safetensors', which is outside the repository's folder.",
    ),
]


@pytest.mark.parametrize(("case", "kind", "sentence"), REFUSED, ids=[case.__name__ for case, _, _ in REFUSED])
def test_refusal_is_an_error_sentence(
    case: Callable[[Site], None], kind: type[RuntimeStartError], sentence: str, site: Site
) -> None:
    with pytest.raises(kind) as raised:
        case(site)
    assert str(raised.value) == sentence.replace("HUB", site.endpoint)
    assert site.hub.downloads() == []


def test_file_damaged_in_transit_is_fetched_again(site: Site) -> None:
    site.hub.damage = 1
    assert (site.fetch() / "model.safetensors").read_bytes() == WEIGHTS
    assert max(each.done_bytes for each in site.progress) == sum(map(len, site.hub.files.values()))


def test_file_with_a_wrong_checksum_is_reported_and_not_published(site: Site) -> None:
    site.hub.damage = 2
    with pytest.raises(ModelUnreadable) as raised:
        site.fetch()
    assert str(raised.value) == (
        "model.safetensors of repository tiny/model was downloaded 2 times with a wrong checksum. Choose "
        "another revision, or ask the owner of the repository or of the mirror."
    )
    assert not (site.root / "tiny--model" / f"{COMMIT}.partial" / "model.safetensors").exists()


def test_too_small_disk_is_reported_before_the_first_byte(site: Site) -> None:
    site.free = lambda _: 1024
    with pytest.raises(DiskFull) as raised:
        site.fetch()
    assert str(raised.value) == (
        f"Repository tiny/model needs 1 MiB more in {site.root}, but 1 KiB are free: use a larger volume."
    )
    assert site.hub.downloads() == []


def test_disk_that_fills_up_is_reported(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        DiskFull,
        match=r"^The disk became full while .*\. The received bytes are kept, and the next start continues ",
    ):
        site.fetch()


@pytest.mark.parametrize(
    ("number", "kind", "why"),
    [
        (errno.ENOSPC, DiskFull, "is full. Free space"),
        (errno.EDQUOT, DiskFull, "is full. Free space"),
        (errno.EIO, ConfigError, r"Nothing can be fetched into .* check its volume"),
    ],
)
def test_failing_volume_is_named(number: int, kind: type[RuntimeStartError], why: str, site: Site) -> None:
    def fail(_: Path) -> int:
        raise OSError(number, os.strerror(number))

    site.free = fail
    with pytest.raises(kind, match=why):
        site.fetch()


def test_read_only_folder_is_named(site: Site) -> None:
    site.root = site.root / "file"
    site.root.write_text("not a folder")
    with pytest.raises(ConfigError, match=r"file/tiny--model \(Not a directory\): mount a volume that"):
        site.fetch()


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


def test_error_messages_contain_neither_token_nor_signed_url(site: Site) -> None:
    site.hub.token, site.hub.break_after = "hf_secret", [HALF] * 9
    with pytest.raises(HubUnreachable) as raised:
        site.fetch(token="hf_secret", tries=0)
    assert "hf_secret" not in str(raised.value)
    assert "signature" not in str(raised.value)
