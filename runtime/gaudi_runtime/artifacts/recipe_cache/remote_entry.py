"""One entry of recipes below an HTTP(S) address: the same files as on a volume (entry.py), only read."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import Message
from functools import partial
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import IO, TypeVar
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from gaudi_runtime.artifacts.recipe_cache.entry import Alive, stated, written
from gaudi_runtime.artifacts.recipe_cache.manifest import (
    MAX_MANIFEST_BYTES,
    EntryUnusable,
    Manifest,
    StoredFile,
    parse_manifest,
)
from gaudi_runtime.artifacts.recipe_cache.s3_signature import Keys, signed_headers
from gaudi_runtime.artifacts.recipe_cache.signature import MAX_SIGNATURE_BYTES, check_signature
from gaudi_runtime.artifacts.transfer import all_at_once, persistently
from gaudi_runtime.contract.config import RecipeStore
from gaudi_runtime.contract.ports import (
    STORE_KEY_ID_VARIABLE,
    STORE_SECRET_VARIABLE,
    STORE_SESSION_VARIABLE,
    STORE_TOKEN_VARIABLE,
)
from gaudi_runtime.engine_protocol.engine import RecipeKey
from gaudi_runtime.units import size

Answer = TypeVar("Answer")
PAUSES = (1.0, 4.0)
"""Seconds between the attempts to read one object."""

SILENCE_SECONDS = 10.0
PIECE_BYTES = 1024 * 1024
_DENIED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_BUSY = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)


class NoSuchObject(Exception):
    """The store has no object of this name."""


class StoreAway(Exception):
    """The store failed, and a retry may succeed; the message is the reason, as the end of a sentence."""


class _NoRedirects(HTTPRedirectHandler):
    """Refuses redirects, which would send the credentials to another host."""

    def redirect_request(self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str) -> None:
        """Return None, so that the answer becomes an HTTPError."""


@dataclass(frozen=True)
class HttpStore:
    """The objects below `url`, with either `token` or `keys` and their `region`, or without credentials.

    The store may be silent for `silence_seconds`, before an answer or within one.
    """

    url: str
    token: str | None = field(default=None, repr=False)
    keys: Keys | None = None
    region: str | None = None
    silence_seconds: float = SILENCE_SECONDS

    def pieces(self, path: str) -> Iterator[bytes]:
        """Yield the bytes of one object. Raises NoSuchObject, StoreAway, or EntryUnusable if no retry can help."""
        address = f"{self.url.rstrip('/')}/{path}"
        request = Request(address, headers=self._headers(address))  # noqa: S310 - only http and https are allowed
        try:
            with build_opener(_NoRedirects).open(request, timeout=self.silence_seconds) as answer:
                while piece := answer.read1(PIECE_BYTES):
                    yield piece
                if answer.length:
                    raise StoreAway(f"an answer ended {answer.length} bytes before its end")
        except HTTPError as error:
            error.close()
            raise _refusal(error.code) from error
        except (OSError, HTTPException, ValueError, OverflowError) as error:  # the last two for an invalid address
            why = str(getattr(error, "reason", error)) or type(error).__name__
            raise StoreAway(f"it does not answer ({why})") from error

    def _headers(self, address: str) -> dict[str, str]:
        if self.keys and self.region:
            return signed_headers(address, self.region, self.keys, datetime.now(UTC))
        return {"authorization": f"Bearer {self.token}"} if self.token else {}


def http_store(store: RecipeStore, environment: Mapping[str, str]) -> HttpStore:
    """Return the store with the credentials of the `environment`.

    Raises EntryUnusable if a credential is missing or invalid, and for an address without TLS, unless that is allowed.
    """
    given = {name: value.strip() for name, value in environment.items() if value.strip()}
    token, session = given.get(STORE_TOKEN_VARIABLE), given.get(STORE_SESSION_VARIABLE)
    key_id, secret = given.get(STORE_KEY_ID_VARIABLE), given.get(STORE_SECRET_VARIABLE)
    if not store.url.startswith("https://") and not store.insecure:
        raise EntryUnusable(
            "its address has no TLS, but recipes are code: use an address with https://, or set insecure true"
        )
    if any(each and not (each.isascii() and each.isprintable()) for each in (token, session, key_id)):
        raise EntryUnusable("its credentials contain invalid characters: write their Secret again")
    if store.s3_region is None:
        return HttpStore(store.url, token)
    if not (key_id and secret):
        raise EntryUnusable("its Secret has no AWS_ACCESS_KEY_ID or no AWS_SECRET_ACCESS_KEY")
    return HttpStore(store.url, keys=Keys(key_id, secret, session), region=store.s3_region)


def _refusal(status: int) -> Exception:
    if status == HTTPStatus.NOT_FOUND:
        return NoSuchObject()
    if status in _BUSY or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return StoreAway(f"it answers with HTTP {status}")
    if status in _DENIED:
        return EntryUnusable(
            f"it answers with HTTP {status}: check its credentials, which must also be allowed to list"
        )
    return EntryUnusable(f"it answers with HTTP {status}")


class RemoteEntry:
    """The recipes of `key` in a store: at most `limit_bytes`, read within `seconds` from now on."""

    def __init__(
        self,
        store: HttpStore,
        key: RecipeKey,
        limit_bytes: int,
        seconds: float,
        alive: Alive,
        pauses: Sequence[float] = PAUSES,
        clock: Callable[[], float] = time.monotonic,
        public_key: str | None = None,
    ) -> None:
        """`alive` is called for every piece, from several threads; `clock` returns monotonic seconds.

        If `public_key` (PEM) is set, an entry is read only if the holder of the key has signed it.
        """
        self._public_key = public_key
        self._store, self._key, self._limit = store, key, limit_bytes
        self._alive, self._pauses, self._clock = alive, pauses, clock
        self._seconds, self._until = seconds, clock() + seconds
        self._ended = threading.Event()

    def read(self) -> Manifest | None:
        """Read the manifest; None if there is no entry. Raises EntryUnusable, or the errors of `alive`."""
        self._ended.clear()
        try:
            content = self._persistently(lambda: b"".join(self._pieces("manifest", MAX_MANIFEST_BYTES)))
        except NoSuchObject:
            return None
        if self._public_key:
            check_signature(content, self._signature(), self._public_key)
        manifest = parse_manifest(content.decode(errors="replace"), self._key)
        if manifest.size > self._limit:
            raise EntryUnusable(f"it has {size(manifest.size)}, which are more than {size(self._limit)}")
        return manifest

    def _signature(self) -> bytes:
        try:
            return self._persistently(lambda: b"".join(self._pieces("manifest.sig", MAX_SIGNATURE_BYTES)))
        except NoSuchObject as error:
            raise EntryUnusable("it has no manifest.sig, which publicKey requires") from error

    def copy(self, files: Iterable[tuple[str, StoredFile]], target: Path, alive: Alive) -> None:
        """Copy files as Entry.copy() does, with `alive` of this object; the first failure cancels the others."""
        tasks = [partial(self._bring, path, wanted, target / path) for path, wanted in files]
        all_at_once(tasks, self._ended, "recipes")

    def _bring(self, path: str, wanted: StoredFile, place: Path) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._persistently(lambda: self._write(path, wanted, place))
        except NoSuchObject as error:
            raise EntryUnusable(f"{path} is missing in it") from error

    def _write(self, path: str, wanted: StoredFile, place: Path) -> None:
        """Write one object to a file; each retry starts from the beginning, because objects are small."""
        with place.open("wb") as file:
            found = stated(written(self._pieces(f"objects/{wanted.sha256}", wanted.size), file))
        if found != wanted:
            raise StoreAway(f"{path} does not have its checksum")
        place.chmod(0o755)  # stores keep no modes, and some compiled files must be executable

    def _pieces(self, name: str, most: int) -> Iterator[bytes]:
        """Yield the bytes of one object, which may have at most `most`."""
        self._look()  # checked before each attempt, so that none begins after the deadline
        count = 0
        for piece in self._store.pieces(f"{self._key.digest}/{name}"):
            self._look()
            count += len(piece)
            if count > most:  # an endless answer must fill neither memory nor disk
                raise EntryUnusable(f"{name} in it is larger than {size(most)}")
            yield piece

    def _persistently(self, ask: Callable[[], Answer]) -> Answer:
        try:
            return persistently(ask, StoreAway, self._pauses, lambda seconds, _: self._ended.wait(seconds))
        except StoreAway as error:
            raise EntryUnusable(str(error)) from error

    def _look(self) -> None:
        self._alive()
        if self._ended.is_set():
            raise EntryUnusable("another of its files could not be read")
        if self._clock() > self._until:
            raise EntryUnusable(f"it was not read within {self._seconds:.0f} s")
