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
    session_token: str | None = field(default=None, repr=False)


def signed_headers(
    url: str, region: str, keys: AwsKeys, moment: datetime, extra_headers: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return all headers of a GET of `url` at a UTC `moment`, including `extra_headers`."""
    url_parts, timestamp = urlsplit(url), moment.strftime("%Y%m%dT%H%M%SZ")
    headers = {
        **(extra_headers or {}),
        "host": url_parts.netloc,
        "x-amz-content-sha256": NO_BODY,
        "x-amz-date": timestamp,
        **({"x-amz-security-token": keys.session_token} if keys.session_token else {}),
    }
    header_names = ";".join(sorted(headers))
    header_lines = "".join(f"{name}:{headers[name].strip()}\n" for name in sorted(headers))
    # The path is quoted exactly once, as the server quotes it. Otherwise the signatures differ.
    request = f"GET\n{quote(unquote(url_parts.path))}\n\n{header_lines}\n{header_names}\n{NO_BODY}"
    scope = f"{timestamp[:8]}/{region}/s3/aws4_request"
    text_to_sign = f"{ALGORITHM}\n{timestamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    signature = _hmac(_signing_key(keys.secret, scope), text_to_sign).hex()
    credential = f"Credential={keys.key_id}/{scope}"
    return {**headers, "authorization": f"{ALGORITHM} {credential},SignedHeaders={header_names},Signature={signature}"}


def _signing_key(secret: str, scope: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = _hmac(key, part)
    return key


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()
