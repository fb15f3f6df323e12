"""One entry over real HTTP: faults that a retry repairs, and faults that make the entry unusable."""

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gaudi_runtime.artifacts.recipe_cache.entry import Entry, hash_files
from gaudi_runtime.artifacts.recipe_cache.manifest import EntryUnusable, Manifest, StoredFile, format_manifest
from gaudi_runtime.artifacts.recipe_cache.object_store import PIECE_BYTES, SILENCE_SECONDS, HttpStore
from gaudi_runtime.artifacts.recipe_cache.remote_entry import RemoteEntry
from gaudi_runtime.engine_protocol.engine import RecipeKey
from gaudi_runtime.process.signals import Stopped
from gaudi_runtime.warmup.journal import NOTHING_KNOWN
from localcluster.control_plane.certificates import Authority
from tests.support.store_server import StoreState, store_server

KEY = RecipeKey(software="sim", card="gaudi2", model="llama", dtype="auto", parallelism="tensor 1")
CONTENTS = {"code/a": b"one" * 1000, "code/b/c": b"two" * 1000, "code/d": b"three"}


def alive() -> None:
    pass


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StoreState]:
    for path, content in CONTENTS.items():
        (tmp_path / "disk" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "disk" / path).write_bytes(content)
    manifest = Manifest(hash_files(tmp_path / "disk", lambda _: False, alive), NOTHING_KNOWN)
    Entry(tmp_path / "bucket", KEY).write(manifest, tmp_path / "disk", alive, overwrite=False)
    with store_server(tmp_path / "bucket") as state:
        yield state


def remote(store: StoreState, silence_seconds: float = SILENCE_SECONDS, **given: Any) -> RemoteEntry:
    defaults = {"limit_bytes": 10**6, "seconds": 60.0, "heartbeat": alive, "pauses": (0.0, 0.0)}
    return RemoteEntry(HttpStore(store.url, silence_seconds=silence_seconds), KEY, **{**defaults, **given})


def read_and_copy(entry: RemoteEntry, target: Path) -> None:
    manifest = entry.read_manifest()
    assert manifest is not None
    entry.copy(manifest.files.items(), target, alive)


def objects(store: StoreState) -> int:
    """Return the number of requests for objects."""
    return sum("/objects/" in path for path, _ in store.requests)


def test_files_arrive_unchanged_and_executable(store: StoreState, tmp_path: Path) -> None:
    read_and_copy(remote(store), tmp_path / "target")
    found = {path: (tmp_path / "target" / path).read_bytes() for path in CONTENTS}
    assert found == CONTENTS
    assert (tmp_path / "target" / "code/a").stat().st_mode & 0o777 == 0o755


def test_address_may_end_with_a_slash(store: StoreState) -> None:
    store.url += "/"
    assert remote(store).read_manifest()
    assert [path for path, _ in store.requests] == [f"/recipes/{KEY.digest}/manifest"]


def test_manifest_in_several_pieces_is_joined(store: StoreState) -> None:
    name = "x" * 100
    files = {f"{name}{number}": StoredFile(sha256="0" * 64, size=1) for number in range(10_000)}
    (store.folder / KEY.digest / "manifest").write_text(format_manifest(Manifest(files, NOTHING_KNOWN), KEY))
    found = remote(store).read_manifest()
    assert found
    assert len(found.files) == 10_000


def test_manifest_that_is_not_text_is_damaged(store: StoreState) -> None:
    (store.folder / KEY.digest / "manifest").write_bytes(b"\xff")
    with pytest.raises(EntryUnusable, match=r"^the manifest does not match its checksum$"):
        remote(store).read_manifest()


def test_missing_manifest_is_read_as_none(store: StoreState, tmp_path: Path) -> None:
    store.folder = tmp_path / "disk"
    assert remote(store).read_manifest() is None


@pytest.mark.parametrize("fault", [{"cut": 2}, {"damage": 2}], ids=["cut off", "damaged"])
def test_damaged_object_is_fetched_again(store: StoreState, tmp_path: Path, fault: dict[str, int]) -> None:
    for name, count in fault.items():
        setattr(store, name, count)
    read_and_copy(remote(store), tmp_path / "target")
    assert (tmp_path / "target" / "code/a").read_bytes() == CONTENTS["code/a"]
    assert objects(store) == len(CONTENTS) + 2


def test_object_damaged_in_every_attempt_makes_the_entry_unusable(store: StoreState, tmp_path: Path) -> None:
    store.damage = 100
    with pytest.raises(EntryUnusable, match=r"^the file code/\S+ does not match its checksum in the manifest$"):
        read_and_copy(remote(store), tmp_path / "target")


def test_missing_object_makes_the_entry_unusable(store: StoreState, tmp_path: Path) -> None:
    next(store.folder.glob("*/objects/*")).unlink()
    with pytest.raises(EntryUnusable, match=r"^the file code/\S+ is missing$"):
        read_and_copy(remote(store), tmp_path / "target")


def test_busy_store_is_retried(store: StoreState, tmp_path: Path) -> None:
    store.statuses = [503, 429]
    read_and_copy(remote(store), tmp_path / "target")


def test_busy_store_is_retried_after_a_delay(store: StoreState) -> None:
    store.statuses = [503]
    begun = time.monotonic()
    assert remote(store, pauses=(0.1,)).read_manifest()
    assert time.monotonic() - begun >= 0.1


def test_store_that_stays_busy_is_abandoned_after_three_requests(store: StoreState) -> None:
    store.statuses = [500] * 10
    with pytest.raises(EntryUnusable, match="the store answers with HTTP 500"):
        remote(store).read_manifest()
    assert len(store.requests) == 3


def test_refused_connection_makes_the_entry_unusable() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        unheard = StoreState(Path(), url=f"http://127.0.0.1:{taken.getsockname()[1]}/recipes")
        with pytest.raises(EntryUnusable, match=r"the store does not answer \(.*Connection refused\)"):
            remote(unheard).read_manifest()


@pytest.fixture
def secure(store: StoreState, tmp_path: Path) -> Iterator[StoreState]:
    """The store over HTTPS, with a certificate of an unknown authority."""
    Authority.create(tmp_path / "tls").issue("store", "store", hosts=["127.0.0.1"])
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "tls" / "store.crt", tmp_path / "tls" / "store.key")
    with store_server(store.folder, tls=tls) as state:
        yield state


def test_store_with_an_untrusted_certificate_gets_no_request(secure: StoreState) -> None:
    with pytest.raises(EntryUnusable, match="certificate verify failed"):
        remote(secure).read_manifest()
    assert secure.requests == []


def test_certificate_authority_is_read_from_ssl_cert_file(
    secure: StoreState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "tls" / "ca.crt"))
    read_and_copy(remote(secure), tmp_path / "target")


def test_store_that_stops_sending_is_abandoned(store: StoreState, tmp_path: Path) -> None:
    store.hold = threading.Event()
    with pytest.raises(EntryUnusable, match=r"the store does not answer \(timed out\)"):
        read_and_copy(remote(store, silence_seconds=0.05), tmp_path / "target")


def test_store_may_be_silent_for_ten_seconds() -> None:
    assert SILENCE_SECONDS == 10


def test_entry_that_takes_too_long_is_abandoned(store: StoreState) -> None:
    times = iter((0.0, 1.0, 5.5))
    with pytest.raises(EntryUnusable, match="the recipes were not read within 5 s"):
        remote(store, seconds=5, clock=lambda: next(times)).read_manifest()


def test_entry_beyond_the_limit_is_refused_before_its_files(store: StoreState, tmp_path: Path) -> None:
    with pytest.raises(EntryUnusable, match="but the limit is 1000 B"):
        read_and_copy(remote(store, limit_bytes=1000), tmp_path / "target")
    assert objects(store) == 0


def test_entry_of_exactly_the_limit_is_accepted(store: StoreState) -> None:
    assert remote(store, limit_bytes=sum(map(len, CONTENTS.values()))).read_manifest()


def test_object_larger_than_its_size_in_the_manifest_is_refused(store: StoreState, tmp_path: Path) -> None:
    # The store sends the file in pieces, and no single piece is larger than the stated size. So the client must count
    # the bytes of all pieces.
    (tmp_path / "large").mkdir()
    (tmp_path / "large" / "recipe").write_bytes(b"x" * (PIECE_BYTES + 1))
    manifest = Manifest(hash_files(tmp_path / "large", lambda _: False, alive), NOTHING_KNOWN)
    Entry(store.folder, KEY).write(manifest, tmp_path / "large", alive, overwrite=False)
    store.endless = True
    with pytest.raises(EntryUnusable, match="is larger than"):
        read_and_copy(remote(store, limit_bytes=10**7), tmp_path / "target")


def test_stop_ends_a_running_download(store: StoreState, tmp_path: Path) -> None:
    entry = remote(store)
    manifest = entry.read_manifest()
    assert manifest is not None

    def stop() -> None:
        raise Stopped

    entry = remote(store, heartbeat=stop)
    with pytest.raises(Stopped):
        entry.copy(manifest.files.items(), tmp_path / "target", stop)
