"""tls: contexts from files, and listeners whose certificate changes under open connections."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from gateway.config import TlsConfig
from gateway.web.listener import Listener
from gateway.web.tls import Certificates, TlsError


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


def issue(authority: trustme.CA, path: Path, **wanted: object) -> Path:
    """A certificate for this host with its key, in one file."""
    issued = authority.issue_cert("127.0.0.1", **wanted)
    issued.private_key_and_cert_chain_pem.write_to_path(str(path))
    return path


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def serial(port: int, context: ssl.SSLContext) -> str:
    """The serial number of the certificate that the listener shows."""
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    found = writer.get_extra_info("peercert")["serialNumber"]
    writer.close()
    await writer.wait_closed()
    return found


async def is_refused(port: int, context: ssl.SSLContext) -> bool:
    """Whether a client can say nothing; TLS 1.3 may tell it only at its first read."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        writer.write(b"?")
        refused = await reader.read(1) != b"?"
        writer.transport.abort()
    except (ssl.SSLError, ConnectionError):
        return True
    return refused


async def test_secure__new_certificate__only_new_connections_see_it(
    authority: trustme.CA, tmp_path: Path
) -> None:
    certificates = Certificates(TlsConfig(certificate=str(issue(authority, tmp_path / "cert"))))
    listener = Listener(Echo, certificates.load(), 5)
    port = await listener.start("127.0.0.1", 0)
    context = trusting(authority)
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    before = writer.get_extra_info("peercert")["serialNumber"]
    assert not certificates.changed()
    issue(authority, tmp_path / "cert")
    assert certificates.changed()
    await listener.secure(certificates.load())
    after = await serial(port, context)
    writer.write(b"still here")
    assert await reader.readexactly(10) == b"still here"
    assert before != after
    writer.close()
    await writer.wait_closed()
    listener.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_load__client_authority__refuses_clients_without_its_certificate(
    authority: trustme.CA, tmp_path: Path
) -> None:
    authority.cert_pem.write_to_path(str(tmp_path / "ca"))
    config = TlsConfig(
        certificate=str(issue(authority, tmp_path / "cert")), client_ca=str(tmp_path / "ca")
    )
    listener = Listener(Echo, Certificates(config).load(), 5)
    port = await listener.start("127.0.0.1", 0)
    known = trusting(authority)
    authority.issue_cert("client@example.org").configure_cert(known)
    assert await serial(port, known)
    assert await is_refused(port, trusting(authority))
    listener.close()


@pytest.mark.parametrize(("minimum", "spoken"), [("1.2", True), ("1.3", False)])
async def test_load__minimum__is_the_least_version_spoken(
    authority: trustme.CA, tmp_path: Path, minimum: str, spoken: bool
) -> None:
    config = TlsConfig(certificate=str(issue(authority, tmp_path / "cert")), minimum=minimum)
    listener = Listener(Echo, Certificates(config).load(), 5)
    port = await listener.start("127.0.0.1", 0)
    old = trusting(authority)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    assert await is_refused(port, old) is not spoken
    listener.close()


def test_load__certificate__tells_when_it_expires(authority: trustme.CA, tmp_path: Path) -> None:
    expires = datetime.now(UTC).replace(microsecond=0) + timedelta(days=3)
    path = issue(authority, tmp_path / "cert", not_after=expires)
    certificates = Certificates(TlsConfig(certificate=str(path)))
    certificates.load()
    assert certificates.expires_s == expires.timestamp()


def test_load__expired__is_refused_with_the_reason(authority: trustme.CA, tmp_path: Path) -> None:
    yesterday = datetime.now(UTC) - timedelta(days=1)
    path = issue(
        authority, tmp_path / "cert", not_before=yesterday - timedelta(days=1), not_after=yesterday
    )
    with pytest.raises(TlsError, match="refused by clients: certificate has expired"):
        Certificates(TlsConfig(certificate=str(path))).load()


def test_load__unusable_files__are_named(authority: trustme.CA, tmp_path: Path) -> None:
    good = issue(authority, tmp_path / "cert")
    (tmp_path / "text").write_text("no PEM")
    key = tmp_path / "key"
    authority.issue_cert("127.0.0.1").private_key_pem.write_to_path(str(key))
    for config, expected in (
        (TlsConfig(certificate=str(tmp_path / "none")), r"tls.certificate .* \(No such file"),
        (TlsConfig(certificate=str(tmp_path / "text")), r"tls.certificate .* can't be used"),
        (TlsConfig(certificate=str(good), key=str(key)), "KEY_VALUES_MISMATCH"),
        (
            TlsConfig(certificate=str(good), client_ca=str(tmp_path / "text")),
            "client authorities in",
        ),
    ):
        with pytest.raises(TlsError, match=expected):
            Certificates(config).load()


def test_load__encrypted_key__asks_nobody(tmp_path: Path, authority: trustme.CA) -> None:
    from cryptography.hazmat.primitives import serialization

    issued = authority.issue_cert("127.0.0.1")
    key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
    (tmp_path / "key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"passphrase"),
        )
    )
    issued.cert_chain_pems[0].write_to_path(str(tmp_path / "cert"))
    config = TlsConfig(certificate=str(tmp_path / "cert"), key=str(tmp_path / "key"))
    with pytest.raises(TlsError, match="without a passphrase"):
        Certificates(config).load()
