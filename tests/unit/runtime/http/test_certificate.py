"""TLS of the model port: renewed certificate files, unfinished handshakes, and the end of the server."""

import asyncio
import logging
import shutil
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from starlette.types import Receive, Scope, Send

from gaudi_runtime.errors import CertificateUnusable
from gaudi_runtime.http.certificate import Certificate
from gaudi_runtime.http.connection import ConnectionLimits
from gaudi_runtime.http.server import http_server
from localcluster.control_plane.certificates import Authority
from tests.unit.runtime.configs import free_port

LIMITS = ConnectionLimits(4096, 620, drain_seconds=5)
WORKERS = 8


class Mounted:
    """A Secret as the kubelet mounts it: links point through one folder, which a rename replaces."""

    def __init__(self, folder: Path) -> None:
        self._authority = Authority.create(folder / "authority")
        self._versions = count()
        self.folder = folder / "mounted"
        self.folder.mkdir()
        for name in ("tls.crt", "tls.key"):
            (self.folder / name).symlink_to(f"..data/{name}")
        self.renew()

    def renew(self, drop: str = "", **given: bytes) -> bytes:
        """Replace both files with a new pair, with contents from `given` if present. Return the certificate in DER."""
        version = self.folder / f"..{next(self._versions)}"
        version.mkdir()
        self._authority.issue("server", "localhost", hosts=["localhost"])
        for name in ("crt", "key"):
            shutil.move(self._authority.folder / f"server.{name}", version / f"tls.{name}")
            if name in given:
                (version / f"tls.{name}").write_bytes(given[name])
        if drop:
            (version / drop).unlink()
        link = self.folder / "..new"
        link.symlink_to(version.name)
        link.rename(self.folder / "..data")
        pem = (version / "tls.crt").read_text()
        return ssl.PEM_cert_to_DER_cert(pem) if "BEGIN CERT" in pem else b""

    def client(self) -> ssl.SSLContext:
        """Return a TLS context that trusts only the authority."""
        return ssl.create_default_context(cafile=str(self._authority.folder / "ca.crt"))

    def key_with_password(self) -> bytes:
        """Return the current key, encrypted with a password."""
        key = load_pem_private_key((self.folder / "tls.key").read_bytes(), None)
        return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))


@pytest.fixture
def mounted(tmp_path: Path) -> Mounted:
    return Mounted(tmp_path)


async def greet(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": scope["scheme"].encode()})


@asynccontextmanager
async def serving(certificate: Certificate, limits: ConnectionLimits = LIMITS) -> AsyncIterator[int]:
    port = free_port()
    async with asyncio.timeout(60), http_server(greet, port, limits, certificate=certificate):
        yield port


async def served_certificate(mounted: Mounted, port: int) -> bytes:
    """Return the certificate of a new connection in DER."""
    _, writer = await asyncio.open_connection("localhost", port, ssl=mounted.client())
    found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return bytes(found)


async def test_port_with_a_certificate_accepts_only_https(mounted: Mounted) -> None:
    async with serving(Certificate(mounted.folder)) as port:
        async with httpx.AsyncClient(verify=mounted.client(), trust_env=False) as client:
            assert (await client.get(f"https://localhost:{port}/")).text == "https"
        async with httpx.AsyncClient(trust_env=False) as client:
            with pytest.raises(httpx.RemoteProtocolError):
                await client.get(f"http://localhost:{port}/")


async def test_renewed_certificate_is_used_under_load(mounted: Mounted) -> None:
    """Every request gets a response, over kept connections and over new connections."""
    answered = [0] * WORKERS
    done = asyncio.Event()

    async def send_requests(worker: int, port: int) -> None:
        limits = httpx.Limits(max_keepalive_connections=worker % 2)
        async with httpx.AsyncClient(verify=mounted.client(), trust_env=False, limits=limits) as client:
            while not done.is_set():
                assert (await client.get(f"https://localhost:{port}/")).text == "https"
                answered[worker] += 1

    async with serving(Certificate(mounted.folder)) as port, asyncio.TaskGroup() as workers:
        for worker in range(WORKERS):
            workers.create_task(send_requests(worker, port))
        for _ in range(3):
            renewed = mounted.renew()
            while await served_certificate(mounted, port) != renewed:
                pass
        done.set()
    assert min(answered) > 3


@pytest.mark.parametrize("wrong", [{"crt": b"nonsense"}, {"key": b""}, {"drop": "tls.key"}, {"drop": "tls.crt"}])
async def test_invalid_pair_is_ignored_and_logged_once(
    mounted: Mounted, caplog: pytest.LogCaptureFixture, wrong: dict[str, bytes]
) -> None:
    certificate = Certificate(mounted.folder)
    async with serving(certificate) as port:
        before = await served_certificate(mounted, port)
        if "drop" in wrong:
            (mounted.folder / str(wrong["drop"])).unlink()
        else:
            mounted.renew(**wrong)
        with caplog.at_level(logging.ERROR):
            for _ in range(3):
                certificate.reload_if_changed()
        assert await served_certificate(mounted, port) == before
        assert [each.message[:36] for each in caplog.records] == ["The certificate was not replaced: Th"]


async def test_mismatched_pair_is_replaced_after_the_next_renewal(mounted: Mounted) -> None:
    certificate = Certificate(mounted.folder)
    old = (mounted.folder / "tls.key").read_bytes()
    mounted.renew(key=old)
    certificate.reload_if_changed()
    renewed = mounted.renew()
    certificate.reload_if_changed()
    async with serving(certificate) as port:
        assert await served_certificate(mounted, port) == renewed


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda mounted: mounted.renew(key=b"nonsense"), "tls.crt and tls.key are not a usable pair"),
        (lambda mounted: mounted.renew(key=mounted.key_with_password()), "tls.crt and tls.key are not a usable pair"),
        (lambda mounted: (mounted.folder / "tls.crt").unlink(), "tls.crt cannot be read (No such file or directory)"),
    ],
    ids=["no key", "locked key", "no certificate"],
)
def test_start_without_a_pair_is_refused(mounted: Mounted, make: object, why: str) -> None:
    assert callable(make)
    make(mounted)
    with pytest.raises(CertificateUnusable) as refused:
        Certificate(mounted.folder)
    assert str(refused.value).startswith(f"The Secret of spec.server.tlsSecretName cannot be used: {why}")
    assert str(refused.value).endswith("like a Secret of type kubernetes.io/tls.")


async def test_unfinished_handshake_ends_after_head_seconds(mounted: Mounted) -> None:
    async with serving(Certificate(mounted.folder), ConnectionLimits(4096, 620, 5, head_seconds=0.2)) as port:
        reader, writer = await asyncio.open_connection("localhost", port)
        assert await reader.read() == b""
        writer.close()


async def test_silent_connections_do_not_block_others(mounted: Mounted) -> None:
    async with serving(Certificate(mounted.folder), replace(LIMITS, max_connections=4)) as port:
        silent = [await asyncio.open_connection("localhost", port) for _ in range(9)]
        assert [await reader.read() for reader, _ in silent[:5]] == [b""] * 5
        assert await served_certificate(mounted, port)
        for _, writer in silent:
            writer.close()


async def test_request_sent_with_the_last_handshake_message_is_answered(mounted: Mounted) -> None:
    async with serving(Certificate(mounted.folder)) as port:
        for _ in range(20):
            reader, writer = await asyncio.open_connection("localhost", port, ssl=mounted.client())
            writer.write(b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
            assert (await reader.read()).endswith(b"https")
            writer.close()


async def test_server_ends_despite_unfinished_handshakes(mounted: Mounted) -> None:
    async with serving(Certificate(mounted.folder)) as port:
        reader, writer = await asyncio.open_connection("localhost", port)
    assert await reader.read() == b""
    writer.close()
