"""TLS of the S3 port."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.config.setting import setting


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """TLS; without a certificate the S3 port is plain HTTP. The files are read again when changed.

    RDMA's data is not encrypted by it: only the requests are that steer it.
    """

    certificate: str = setting("", "PEM file: the certificate and its chain; empty for plain HTTP")
    key: str = setting("", "PEM file of its key; empty where it is in the certificate's")
    client_ca: str = setting("", "PEM file of who may vouch for clients; empty asks for none")
    minimum: str = setting("1.2", "least version", choices=("1.2", "1.3"))
    look_interval_s: float = setting(10.0, "between two looks at the files", low=0.1)
    handshake_timeout_s: float = setting(10.0, "for a client's handshake", low=0.1)
