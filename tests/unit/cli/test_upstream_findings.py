"""What doctor says of the service upstream."""

import pytest

from gateway.cli import upstream_findings
from gateway.cli.diagnosis import Level
from gateway.config import Config, UpstreamConfig
from gateway.errors import GatewayError, InternalError, S3Code

CONFIG = Config(upstream=UpstreamConfig(endpoint="http://ceph:80"))


def examined(monkeypatch: pytest.MonkeyPatch, outcome: object) -> list[tuple[Level, str]]:
    async def examine(_: Config) -> object:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(upstream_findings, "examine_upstream", examine)
    return [(found.level, found.detail) for found in upstream_findings.look(CONFIG)]


def test_look__service_can_some__both_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert examined(monkeypatch, (("acl", True), ("versioning", True), ("checksums", False))) == [
        (Level.GOOD, "http://ceph:80 answers"),
        (Level.GOOD, "it can: acl, versioning"),
        (Level.NOTE, "it can't: checksums"),
    ]


def test_look__service_can_all__no_note(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(examined(monkeypatch, (("acl", True),))) == 2


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (GatewayError(S3Code.SERVICE_UNAVAILABLE, "it is down"), "it is down"),
        (InternalError("no key"), "no key"),
    ],
)
def test_look__no_answer__broken_and_says_why(
    monkeypatch: pytest.MonkeyPatch, error: GatewayError, told: str
) -> None:
    assert examined(monkeypatch, error) == [(Level.BROKEN, f"http://ceph:80: {told}")]
