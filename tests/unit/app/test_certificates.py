"""certificates: the listeners' TLS at start, at SIGHUP, and when the files change."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from certificates import Authority

from gateway.app.certificates import Tls
from gateway.app.errors import StartError
from gateway.config import TlsConfig
from gateway.telemetry.catalogue import CERTIFICATE_EXPIRY


@dataclass
class Listened:
    """A listener that only remembers the contexts it was given."""

    given: asyncio.Queue[object] = field(default_factory=asyncio.Queue)

    async def secure(self, tls: object) -> None:
        self.given.put_nowait(tls)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    made = Authority(tmp_path)
    made.issue()
    return made


def configured(authority: Authority, look_interval_s: float = 60.0) -> TlsConfig:
    return TlsConfig(certificate=str(authority.certificate), look_interval_s=look_interval_s)


async def test_tls__none_configured__is_plain_and_does_nothing() -> None:
    tls, listener = Tls(TlsConfig()), Listened()
    assert tls.context is None
    tls.keep(listener)  # type: ignore[arg-type]
    tls.look_again()
    tls.close()
    assert listener.given.empty()
    assert not list(tls.metrics())


async def test_tls__sighup__gives_listeners_a_new_context(authority: Authority) -> None:
    tls, listener = Tls(configured(authority)), Listened()
    tls.keep(listener)  # type: ignore[arg-type]
    tls.look_again()
    given = await asyncio.wait_for(listener.given.get(), 5)
    assert given is not tls.context
    (expiry,) = tls.metrics()
    assert expiry.family is CERTIFICATE_EXPIRY
    tls.close()


async def test_tls__file_changed__is_seen_at_the_next_look(authority: Authority) -> None:
    tls, listener = Tls(configured(authority, look_interval_s=0.01)), Listened()
    tls.keep(listener)  # type: ignore[arg-type]
    authority.issue()
    await asyncio.wait_for(listener.given.get(), 5)
    tls.close()


async def test_tls__file_broken__keeps_the_old_one(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    tls, listener = Tls(configured(authority)), Listened()
    tls.keep(listener)  # type: ignore[arg-type]
    authority.certificate.write_text("nothing")
    tls.look_again()
    assert "the old certificate stays: tls.certificate" in caplog.text
    assert listener.given.empty()
    tls.close()


def test_tls__unusable_at_start__is_a_start_error(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"tls\.certificate"):
        Tls(TlsConfig(certificate=str(tmp_path / "none")))
