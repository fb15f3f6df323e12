"""Starts of the sim engine with recipes from an object store: signed requests, signed recipes and faults."""

import time
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    SECP256R1,
    EllipticCurvePrivateKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as rsa_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gaudi_runtime.artifacts.recipe_cache.entry import Entry
from gaudi_runtime.artifacts.recipe_cache.s3_signature import AwsKeys, signed_headers
from gaudi_runtime.contract.config import RecipeStore
from gaudi_runtime.contract.ports import (
    STORE_KEY_ID_VARIABLE,
    STORE_SECRET_VARIABLE,
    STORE_SESSION_VARIABLE,
    STORE_TOKEN_VARIABLE,
)
from gaudi_runtime.contract.report import RecipeOutcome, WarmupReport
from tests.support.store_server import StoreState, store_server
from tests.unit.runtime.artifacts.recipe_cache.site import PLANNED, Site, cached, shared_recipes

HIT, SEEDED = RecipeOutcome.HIT, RecipeOutcome.SEEDED
SECRET = "s3cret-of-a-test"


@pytest.fixture
async def site(tmp_path: Path) -> Site:
    """A site whose recipes were moved to a store, so that its volume is empty."""
    found = Site(tmp_path)
    found.start("first")
    found.shared.rename(tmp_path / "bucket")
    found.shared.mkdir()
    return found


@pytest.fixture
def store(site: Site, tmp_path: Path) -> Iterator[StoreState]:
    with store_server(tmp_path / "bucket") as state:
        yield state


def start(site: Site, store: StoreState, pod: str = "pod", **fields: Any) -> WarmupReport:
    """Start a pod that uses the store."""
    return site.start(pod, store=RecipeStore(**{"url": store.url, "timeout_seconds": 60, "insecure": True, **fields}))


async def test_recipes_of_store_are_used_and_copied_to_volume(site: Site, store: StoreState) -> None:
    second, third = start(site, store), site.start("without a store")
    assert (shared_recipes(second).outcome, cached(second)) == (HIT, PLANNED)
    assert second.recipe_seconds_saved == pytest.approx(PLANNED * (10 - 1))
    assert (shared_recipes(third).outcome, cached(third)) == (HIT, PLANNED)


async def test_store_is_not_contacted_if_the_volume_has_recipes(site: Site, store: StoreState) -> None:
    site.start("seeder")
    assert shared_recipes(start(site, store)).outcome is HIT
    assert store.requests == []


async def test_start_seeds_if_the_store_lacks_the_key(site: Site, store: StoreState) -> None:
    store.folder = site.shared
    second = start(site, store)
    assert (shared_recipes(second).outcome, cached(second)) == (SEEDED, 0)
    assert f"{site.shared} has no recipes" in (shared_recipes(second).reason or "")
    assert f" yet. {store.url} has no recipes" in (shared_recipes(second).reason or "")


async def test_entry_with_a_missing_file_is_read_twice(site: Site, store: StoreState) -> None:
    next(store.folder.glob("*/objects/*")).unlink()
    assert " is missing." in (shared_recipes(start(site, store)).reason or "")
    assert sum(path.endswith("/manifest") for path, _ in store.requests) == 2


async def test_manifest_of_another_key_under_our_digest_is_ignored(site: Site, store: StoreState) -> None:
    foreign = Entry(site.shared, replace(site.key(), model="other"))
    mine = store.folder / site.key().digest
    site.put("other", b"x", days_ago=0)
    (mine / "manifest").write_bytes((foreign.folder / "manifest").read_bytes())
    second = start(site, store)
    assert (shared_recipes(second).outcome, cached(second)) == (SEEDED, 0)
    assert "for other software" in (shared_recipes(second).reason or "")


async def test_refusal_by_the_store_is_reported_without_secrets(
    site: Site, store: StoreState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STORE_TOKEN_VARIABLE, SECRET)
    store.statuses = [403]
    second = start(site, store)
    assert shared_recipes(second).outcome is SEEDED
    assert f"{store.url} are ignored: the store answers with HTTP 403. Check the credentials" in (
        shared_recipes(second).reason or ""
    )
    assert SECRET not in (shared_recipes(second).reason or "")


async def test_token_is_sent_to_the_store(site: Site, store: StoreState, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STORE_TOKEN_VARIABLE, f"{SECRET}\n")
    assert shared_recipes(start(site, store)).outcome is HIT
    assert {headers["authorization"] for _, headers in store.requests} == {f"Bearer {SECRET}"}


async def test_public_store_gets_no_credentials(site: Site, store: StoreState) -> None:
    assert shared_recipes(start(site, store)).outcome is HIT
    assert not any("authorization" in headers for _, headers in store.requests)


@pytest.mark.parametrize("token", ["two\nlines", "s\N{LATIN SMALL LETTER E WITH ACUTE}cret"], ids=["lines", "letters"])
async def test_token_that_is_no_valid_header_is_not_sent(
    site: Site, store: StoreState, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    monkeypatch.setenv(STORE_TOKEN_VARIABLE, token)
    assert ": the credentials of the store contain characters other than printable ASCII. Correct their Secret." in (
        shared_recipes(start(site, store)).reason or ""
    )
    assert store.requests == []


@pytest.fixture
def in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process in the time zone of Tokyo, which differs from UTC."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_tokyo")
async def test_requests_are_signed_for_a_region(site: Site, store: StoreState, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STORE_KEY_ID_VARIABLE, "id-of-a-key")
    monkeypatch.setenv(STORE_SECRET_VARIABLE, SECRET)
    monkeypatch.setenv(STORE_SESSION_VARIABLE, "session")
    assert shared_recipes(start(site, store, s3_region="eu-1")).outcome is HIT
    for path, headers in store.requests:
        moment = datetime.strptime(headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        assert abs(datetime.now(UTC) - moment) < timedelta(minutes=5)
        address = f"http://{headers['host']}{path}"
        expected = signed_headers(address, "eu-1", AwsKeys("id-of-a-key", SECRET, "session"), moment)
        assert expected.items() <= headers.items()
    assert SECRET not in str(store.requests)


@pytest.mark.parametrize(
    "given", [(), (STORE_KEY_ID_VARIABLE,), (STORE_SECRET_VARIABLE,)], ids=["none", "id", "secret"]
)
async def test_s3_store_is_not_contacted_without_key_id_and_secret(
    site: Site, store: StoreState, monkeypatch: pytest.MonkeyPatch, given: tuple[str, ...]
) -> None:
    for name in given:
        monkeypatch.setenv(name, SECRET)
    found = shared_recipes(start(site, store, s3_region="eu-1"))
    assert found.outcome is SEEDED
    assert ": the Secret of the store has no AWS_ACCESS_KEY_ID or no AWS_SECRET_ACCESS_KEY." in (found.reason or "")
    assert store.requests == []


async def test_redirect_is_not_followed(
    site: Site, store: StoreState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STORE_TOKEN_VARIABLE, SECRET)
    with store_server(tmp_path / "bucket") as other:
        store.elsewhere = f"{other.url}/{site.key().digest}/manifest"
        reason = shared_recipes(start(site, store)).reason or ""
        assert "the store answers with HTTP 302" in reason
        assert "credentials" not in reason
        assert other.requests == []


@pytest.fixture
def signer() -> EllipticCurvePrivateKey:
    return generate_private_key(SECP256R1())


def pem(key: EllipticCurvePrivateKey | RSAPrivateKey) -> str:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def sign(site: Site, store: StoreState, signer: EllipticCurvePrivateKey) -> Path:
    """Sign the manifest in the same way as `cosign sign-blob --key`, and return the signature's path."""
    manifest = store.folder / site.key().digest / "manifest"
    signature = manifest.with_name("manifest.sig")
    signature.write_bytes(b64encode(signer.sign(manifest.read_bytes(), ECDSA(SHA256()))) + b"\n")
    return signature


async def test_signed_recipes_are_used(site: Site, store: StoreState, signer: EllipticCurvePrivateKey) -> None:
    sign(site, store, signer)
    second = start(site, store, public_key=pem(signer))
    assert (shared_recipes(second).outcome, cached(second)) == (HIT, PLANNED)


async def test_recipes_without_signature_are_a_miss_with_a_reason(
    site: Site, store: StoreState, signer: EllipticCurvePrivateKey
) -> None:
    second = start(site, store, public_key=pem(signer))
    assert (shared_recipes(second).outcome, cached(second)) == (SEEDED, 0)
    assert "ignored: manifest.sig is missing, but publicKey is set." in (shared_recipes(second).reason or "")
    assert not any("/objects/" in path for path, _ in store.requests)


@pytest.mark.parametrize("wrong", ["by another", "of another manifest", "no base64", "empty"])
async def test_recipes_with_wrong_signature_are_a_miss_with_a_reason(
    site: Site, store: StoreState, signer: EllipticCurvePrivateKey, wrong: str
) -> None:
    signature = sign(site, store, generate_private_key(SECP256R1()) if wrong == "by another" else signer)
    if wrong == "of another manifest":
        signature.write_bytes(b64encode(signer.sign(b"something else", ECDSA(SHA256()))))
    if wrong in ("no base64", "empty"):
        signature.write_bytes(b"\xff" if wrong == "no base64" else b"")
    second = start(site, store, public_key=pem(signer))
    assert (shared_recipes(second).outcome, cached(second)) == (SEEDED, 0)
    assert "ignored: the signature in manifest.sig is not valid for this manifest and publicKey." in (
        shared_recipes(second).reason or ""
    )
    assert not any("/objects/" in path for path, _ in store.requests)


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "publicKey is not a PEM public key."),
        (pem(rsa_key(public_exponent=65537, key_size=2048)), "publicKey is not an ECDSA key with the curve P-256."),
    ],
    ids=["no key", "RSA"],
)
async def test_wrong_public_key_is_a_miss_with_a_reason(
    site: Site, store: StoreState, signer: EllipticCurvePrivateKey, key: str, why: str
) -> None:
    sign(site, store, signer)
    assert why in (shared_recipes(start(site, store, public_key=key)).reason or "")


async def test_store_without_tls_is_not_contacted(site: Site, store: StoreState) -> None:
    second = start(site, store, insecure=None)
    assert shared_recipes(second).outcome is SEEDED
    assert (
        f"The recipes in {store.url} are ignored: the URL of the store does not start with https://, but recipes are "
        "code that pods run. Use https://, or set insecure: true."
    ) in (shared_recipes(second).reason or "")
    assert store.requests == []
