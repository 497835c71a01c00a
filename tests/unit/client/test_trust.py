"""trust: boto3's words for whom to believe, as what checks certificates."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trustme

from gateway.client.trust import trust


@pytest.fixture
def bundle(tmp_path: Path) -> str:
    path = tmp_path / "ca.pem"
    trustme.CA().cert_pem.write_to_path(str(path))
    return str(path)


def test_trust__nothing_said__is_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)
    assert trust(None) is True
    assert trust(True) is True
    assert trust(False) is False


def test_trust__a_file__is_the_only_authority(bundle: str) -> None:
    context = trust(bundle)
    assert isinstance(context, ssl.SSLContext)
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert len(context.get_ca_certs()) == 1


def test_trust__variable__counts_where_nothing_else_is_said(
    bundle: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", bundle)
    assert isinstance(trust(None), ssl.SSLContext)
    assert trust(True) is True
    assert trust(False) is False


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_trust__unusable_file__is_named(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ValueError, match=r"the CA bundle .*ca\.pem can't be used"):
        trust(str(path))
