"""TLS of the listeners: contexts made from the configured files, and made again when those change.

A context is never changed while connections use it: a listener gets a new one, and what is open
goes on with the old. So a renewed certificate, another client authority or a broken file can't
disturb a connection.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from gateway.config import TlsConfig

_MINIMUM = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
# TLS 1.2 with forward secrecy and authenticated encryption only (RFC 9325 section 4.2); those of
# 1.3 are all of that kind.
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
_HANDSHAKE_TURNS = 8  # more than any handshake takes


class TlsError(Exception):
    """The files can't be used; one line for the operator, with the remedy."""


class Certificates:
    """The configured files, and what they looked like when they were last read."""

    def __init__(self, config: TlsConfig) -> None:
        self._config = config
        self._seen: tuple[tuple[int, ...], ...] = ()
        self.expires_s = 0.0

    def load(self) -> ssl.SSLContext:
        """A context for listeners, tried by a handshake in memory. Raises TlsError."""
        config = self._config
        self._seen = self._shapes()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = _MINIMUM[config.minimum]
        context.set_ciphers(_CIPHERS)
        context.set_alpn_protocols(["http/1.1"])
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
        try:
            context.load_cert_chain(config.certificate, config.key or None, _no_password)
        except (OSError, ssl.SSLError) as error:
            raise _unusable("tls.certificate and tls.key", error) from error
        if config.client_ca:
            try:
                context.load_verify_locations(config.client_ca)
            except (OSError, ssl.SSLError) as error:
                raise _unusable(f"the client authorities in {config.client_ca}", error) from error
            context.verify_mode = ssl.CERT_REQUIRED
        self.expires_s = _expiry(context, config.certificate)
        return context

    def changed(self) -> bool:
        """Whether a file is another than when it was last read."""
        return self._shapes() != self._seen

    def _shapes(self) -> tuple[tuple[int, ...], ...]:
        config = self._config
        return tuple(
            _shape(Path(name)) for name in (config.certificate, config.key, config.client_ca)
        )


def _shape(path: Path) -> tuple[int, ...]:
    """What tells one state of a file from another; of one that is not there, nothing."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def _no_password() -> str:
    """Instead of OpenSSL's question at the terminal."""
    raise TlsError(
        "tls.key is encrypted: store it without a passphrase, readable by its owner alone"
    )


def _unusable(what: str, error: OSError) -> TlsError:
    """A file's own trouble in the system's words, what is in it in OpenSSL's."""
    reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
    reason = reason or "nothing of that kind is in it"
    return TlsError(f"{what} can't be used ({reason}): PEM files that belong together are needed")


def _expiry(server: ssl.SSLContext, certificate: str) -> float:
    """When the server's certificate expires, POSIX seconds: what a client reads that trusts it.

    Raises:
        TlsError: such a client refuses it, as it has expired, say.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(certificate)
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(to_client, to_server)
    peer = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(_HANDSHAKE_TURNS):
        try:
            client.do_handshake()
        except ssl.SSLWantReadError:
            _advance(peer)
        except ssl.SSLCertVerificationError as error:
            raise TlsError(
                f"tls.certificate is refused by clients: {error.verify_message}"
            ) from error
        else:
            break
    found = client.getpeercert() or {}
    return float(ssl.cert_time_to_seconds(str(found["notAfter"])))


def _advance(peer: ssl.SSLObject) -> None:
    try:
        peer.do_handshake()
    except ssl.SSLWantReadError:
        return
