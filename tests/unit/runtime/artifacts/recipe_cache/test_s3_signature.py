"""The signature of a GET request, compared with the published example of S3, and the fields that it covers."""

from datetime import UTC, datetime

import pytest

from gaudi_runtime.artifacts.recipe_cache.s3_signature import AwsKeys, signed_headers

KEYS = AwsKeys("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
MOMENT = datetime(2013, 5, 24, tzinfo=UTC)
URL = "https://examplebucket.s3.amazonaws.com/test.txt"


def signature(url: str = URL, keys: AwsKeys = KEYS, moment: datetime = MOMENT, region: str = "us-east-1") -> str:
    return signed_headers(url, region, keys, moment)["authorization"].rsplit("=", 1)[1]


def test_signature_equals_the_example_in_the_s3_documentation() -> None:
    found = signed_headers(URL, "us-east-1", KEYS, MOMENT, {"range": "bytes=0-9"})
    assert found["authorization"] == (
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
        "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
        "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"url": f"{URL}2"},
        {"keys": AwsKeys(KEYS.key_id, "other")},
        {"moment": MOMENT.replace(day=25)},
        {"region": "eu-1"},
        {"keys": AwsKeys(KEYS.key_id, KEYS.secret, "session")},
    ],
    ids=["object", "secret", "moment", "region", "session"],
)
def test_signature_covers_every_field(changed: dict[str, object]) -> None:
    assert signature(**changed) != signature()  # type: ignore[arg-type]


def test_session_token_is_sent() -> None:
    found = signed_headers(URL, "us-east-1", AwsKeys(KEYS.key_id, KEYS.secret, "session"), MOMENT)
    assert found["x-amz-security-token"] == "session"


def test_path_is_quoted_once() -> None:
    assert signature("https://host/a b") == signature("https://host/a%20b")


def test_repr_of_keys_has_no_secret() -> None:
    assert KEYS.secret not in repr(KEYS)
