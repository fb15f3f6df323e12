"""Objects below an HTTP(S) address, as streams of bytes. Failures are ends of sentences that quote no secret."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import Message
from http import HTTPStatus
from http.client import HTTPException
from typing import IO
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from gaudi_runtime.artifacts.recipe_cache.manifest import EntryUnusable
from gaudi_runtime.artifacts.recipe_cache.s3_signature import Keys, signed_headers
from gaudi_runtime.contract.config import RecipeStore
from gaudi_runtime.contract.ports import (
    STORE_KEY_ID_VARIABLE,
    STORE_SECRET_VARIABLE,
    STORE_SESSION_VARIABLE,
    STORE_TOKEN_VARIABLE,
)

SILENCE_SECONDS = 10.0
"""How long a store may be silent, before an answer or in the middle of one."""
PIECE_BYTES = 1024 * 1024
_DENIED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_BUSY = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)


class NoSuchObject(Exception):
    """The store has nothing of this name."""


class StoreAway(Exception):
    """Another try may succeed; the message says why, as the end of a sentence."""


class _NoRedirects(HTTPRedirectHandler):
    """To follow one would show the credentials to whom it names."""

    def redirect_request(self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str) -> None:
        """Nothing: the answer is an HTTPError then."""


@dataclass(frozen=True)
class HttpStore:
    """The objects below `url`; at most one of `token` and `keys` is given, and `region` with the keys."""

    url: str
    token: str | None = field(default=None, repr=False)
    keys: Keys | None = None
    region: str | None = None

    def pieces(self, path: str) -> Iterator[bytes]:
        """The bytes of one object. Raises NoSuchObject, StoreAway or, for what no other try mends, EntryUnusable."""
        address = f"{self.url.rstrip('/')}/{path}"
        request = Request(address, headers=self._headers(address))  # noqa: S310 - the contract lets no other scheme in
        try:
            with build_opener(_NoRedirects).open(request, timeout=SILENCE_SECONDS) as answer:
                while piece := answer.read1(PIECE_BYTES):
                    yield piece
                if answer.length:
                    raise StoreAway(f"an answer broke off {answer.length} bytes before its end")
        except HTTPError as error:
            error.close()
            raise _refusal(error.code) from error
        except (OSError, HTTPException, ValueError, OverflowError) as error:  # the last two of an impossible address
            why = str(getattr(error, "reason", error)) or type(error).__name__
            raise StoreAway(f"it does not answer ({why})") from error

    def _headers(self, address: str) -> dict[str, str]:
        if self.keys and self.region:
            return signed_headers(address, self.region, self.keys, datetime.now(UTC))
        return {"authorization": f"Bearer {self.token}"} if self.token else {}


def http_store(store: RecipeStore, environment: Mapping[str, str]) -> HttpStore:
    """The store with the credentials of the `environment`. Raises EntryUnusable where one is missing or no header."""
    given = {name: value.strip() for name, value in environment.items() if value.strip()}
    token, session = given.get(STORE_TOKEN_VARIABLE), given.get(STORE_SESSION_VARIABLE)
    key_id, secret = given.get(STORE_KEY_ID_VARIABLE), given.get(STORE_SECRET_VARIABLE)
    if any(each and not (each.isascii() and each.isprintable()) for each in (token, session, key_id)):
        raise EntryUnusable("its credentials have characters that none have: write their Secret anew")
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
