"""Headers that sign one GET for S3 (AWS Signature Version 4). Pure.

The module supports only what reading an object needs: no query and no body (docs/how-to/recipe-cache.md, Recipes in an
object store).
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import quote, unquote, urlsplit

ALGORITHM = "AWS4-HMAC-SHA256"
NO_BODY = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True)
class AwsKeys:
    """An access key and a secret key, with the token of their session if they are temporary."""

    key_id: str
    secret: str = field(repr=False)
    session: str | None = field(default=None, repr=False)


def signed_headers(
    url: str, region: str, keys: AwsKeys, moment: datetime, others: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return all headers of a GET of `url` at a UTC `moment`, including `others`."""
    split, stamp = urlsplit(url), moment.strftime("%Y%m%dT%H%M%SZ")
    headers = {
        **(others or {}),
        "host": split.netloc,
        "x-amz-content-sha256": NO_BODY,
        "x-amz-date": stamp,
        **({"x-amz-security-token": keys.session} if keys.session else {}),
    }
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name].strip()}\n" for name in sorted(headers))
    # The path is quoted exactly once, as the server quotes it. Otherwise the signatures differ.
    request = f"GET\n{quote(unquote(split.path))}\n\n{lines}\n{names}\n{NO_BODY}"
    scope = f"{stamp[:8]}/{region}/s3/aws4_request"
    to_sign = f"{ALGORITHM}\n{stamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    signature = _hmac(_signing_key(keys.secret, scope), to_sign).hex()
    credential = f"Credential={keys.key_id}/{scope}"
    return {**headers, "authorization": f"{ALGORITHM} {credential},SignedHeaders={names},Signature={signature}"}


def _signing_key(secret: str, scope: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = _hmac(key, part)
    return key


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()
