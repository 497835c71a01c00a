"""Where the operator looks: metrics, health, status."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.config.setting import setting


@dataclass(frozen=True, slots=True)
class AdminConfig:
    """The admin listener: metrics, health and the status page. It asks nobody who they are."""

    host: str = setting("127.0.0.1", "address of metrics, health and status; empty for none")
    port: int = setting(
        9001, "its port, of each further worker the next; 0 takes a free one", low=0, high=65535
    )
    tls: bool = setting(False, "serve it with tls.certificate")
    client_ca: str = setting("", "PEM file of who may vouch for its clients; empty asks for none")
    insecure: bool = setting(False, "admit an address beyond loopback without client certificates")
    check_timeout_s: float = setting(5.0, "for trying storage and fabric (/readyz)", low=0.1)
    check_interval_s: float = setting(5.0, "that the result of a try is good for", low=0)
    max_connections: int = setting(64, "of the admin listener, open at once")
