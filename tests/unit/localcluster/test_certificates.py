"""Certificates of a cluster."""

import ipaddress
import ssl
import stat
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from localcluster.control_plane.certificates import Authority


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.create(tmp_path / "pki")


def issued(authority: Authority, file: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate((authority.folder / f"{file}.crt").read_bytes())


def test_issued_certificate_is_signed_by_the_authority(authority: Authority) -> None:
    authority.issue("admin", "admin", "system:masters")
    issued(authority, "admin").verify_directly_issued_by(authority.certificate)


def test_subject_carries_user_and_group(authority: Authority) -> None:
    authority.issue("kubelet", "system:node:n", "system:nodes")
    subject = issued(authority, "kubelet").subject
    assert subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "system:node:n"
    assert subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)[0].value == "system:nodes"


def test_hosts_become_names_and_addresses(authority: Authority) -> None:
    authority.issue("api", "api", hosts=("kubernetes.default", "10.200.0.1"))
    names = issued(authority, "api").extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["kubernetes.default"]
    assert names.get_values_for_type(x509.IPAddress) == [ipaddress.ip_address("10.200.0.1")]


def test_issued_certificate_is_not_an_authority(authority: Authority) -> None:
    authority.issue("admin", "admin")
    assert not issued(authority, "admin").extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_client_with_strict_rules_of_new_python_accepts_the_server(authority: Authority) -> None:
    authority.issue("api", "api", hosts=("kubernetes",))
    trust = ssl.create_default_context(cafile=str(authority.folder / "ca.crt"))
    trust.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
    identity = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    identity.load_cert_chain(authority.folder / "api.crt", authority.folder / "api.key")
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trust.wrap_bio(to_client, to_server, server_hostname="kubernetes")
    server = identity.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    assert client.version() == "TLSv1.3"


def test_keys_are_readable_by_the_owner_only(authority: Authority) -> None:
    authority.issue("admin", "admin")
    modes = {stat.S_IMODE(key.stat().st_mode) for key in authority.folder.glob("*.key")}
    assert modes == {0o600}
