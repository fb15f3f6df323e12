"""An object store over HTTP(S), from which entries of compiled recipes are read, with a token or AWS keys."""

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
from gaudi_runtime.artifacts.recipe_cache.s3_signature import AwsKeys, signed_headers
from gaudi_runtime.contract.config import RecipeStore
from gaudi_runtime.contract.ports import (
    STORE_KEY_ID_VARIABLE,
    STORE_SECRET_VARIABLE,
    STORE_SESSION_VARIABLE,
    STORE_TOKEN_VARIABLE,
)

SILENCE_SECONDS = 10.0
PIECE_BYTES = 1024 * 1024
_DENIED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_BUSY = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)


class NoSuchObject(Exception):
    """The error of a request for an object that the store does not have."""


class StoreUnavailable(Exception):
    """The error that a request to an object store failed and a retry may help.

    The message is the reason, as the end of a sentence.
    """


class _NoRedirects(HTTPRedirectHandler):
    """A handler that rejects redirects, because a redirect would send the credentials to another host."""

    def redirect_request(self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str) -> None:
        """Return None, so that urllib raises HTTPError for the redirect."""


@dataclass(frozen=True)
class HttpStore:
    """An object store at `url`, with `token`, with `keys` and their `region`, or without credentials.

    A request fails if the store sends nothing for `silence_seconds`, before or during its answer.
    """

    url: str
    token: str | None = field(default=None, repr=False)
    keys: AwsKeys | None = None
    region: str | None = None
    silence_seconds: float = SILENCE_SECONDS

    def read_object(self, path: str) -> Iterator[bytes]:
        """Yield the bytes of one object. Raises NoSuchObject, StoreAway, or EntryUnusable if no retry can help."""
        address = f"{self.url.rstrip('/')}/{path}"
        request = Request(address, headers=self._headers(address))  # noqa: S310 - only http and https are allowed
        try:
            with build_opener(_NoRedirects).open(request, timeout=self.silence_seconds) as answer:
                while piece := answer.read1(PIECE_BYTES):
                    yield piece
                if answer.length:
                    raise StoreUnavailable(f"an answer of the store ended {answer.length} bytes too early")
        except HTTPError as error:
            error.close()
            raise _error_for_status(error.code) from error
        except (OSError, HTTPException, ValueError, OverflowError) as error:  # the last two for an invalid address
            reason = str(getattr(error, "reason", error)) or type(error).__name__
            raise StoreUnavailable(f"the store does not answer ({reason})") from error

    def _headers(self, address: str) -> dict[str, str]:
        if self.keys and self.region:
            return signed_headers(address, self.region, self.keys, datetime.now(UTC))
        return {"authorization": f"Bearer {self.token}"} if self.token else {}


def http_store(store: RecipeStore, environment: Mapping[str, str]) -> HttpStore:
    """Return the object store of shared recipes, with the credentials in `environment`.

    Raises EntryUnusable if a credential is missing or invalid, or if the address has no TLS and this is not allowed.
    """
    variables = {name: value.strip() for name, value in environment.items() if value.strip()}
    token, session_token = variables.get(STORE_TOKEN_VARIABLE), variables.get(STORE_SESSION_VARIABLE)
    key_id, secret = variables.get(STORE_KEY_ID_VARIABLE), variables.get(STORE_SECRET_VARIABLE)
    if not store.url.startswith("https://") and not store.insecure:
        raise EntryUnusable(
            "the URL of the store does not start with https://, but recipes are code that pods run. Use https://, or "
            "set insecure: true"
        )
    if any(text and not (text.isascii() and text.isprintable()) for text in (token, session_token, key_id)):
        raise EntryUnusable(
            "the credentials of the store contain characters other than printable ASCII. Correct their Secret"
        )
    if store.s3_region is None:
        return HttpStore(store.url, token)
    if not (key_id and secret):
        raise EntryUnusable("the Secret of the store has no AWS_ACCESS_KEY_ID or no AWS_SECRET_ACCESS_KEY")
    return HttpStore(store.url, keys=AwsKeys(key_id, secret, session_token), region=store.s3_region)


def _error_for_status(status: int) -> Exception:
    if status == HTTPStatus.NOT_FOUND:
        return NoSuchObject()
    if status in _BUSY or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return StoreUnavailable(f"the store answers with HTTP {status}")
    if status in _DENIED:
        return EntryUnusable(
            f"the store answers with HTTP {status}. Check the credentials, which need the permission to list objects"
        )
    return EntryUnusable(f"the store answers with HTTP {status}")
