"""Where credentials come from, and what a signature covers."""

from __future__ import annotations

from pathlib import Path

import pytest
from botocore.credentials import Credentials, RefreshableCredentials
from botocore.exceptions import CredentialRetrievalError

from gateway.client.errors import CredentialsError
from gateway.client.signing import Signer, load_signer


@pytest.fixture(autouse=True)
def _no_ambient_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    (tmp_path / "credentials").write_text(
        "[lab]\naws_access_key_id = LABKEY\naws_secret_access_key = labsecret\n"
    )
    (tmp_path / "config").write_text("[profile lab]\nregion = eu-west-9\n")


async def _authorization(signer: Signer) -> str:
    headers = await signer.sign("GET", "http://h:9000/b/k", {"x-amz-rdma-psn": "1"}, b"")
    return headers["Authorization"]


async def test_load__profile__brings_key_and_region() -> None:
    signer = load_signer(None, None, "lab")
    assert "Credential=LABKEY/" in await _authorization(signer)
    assert "/eu-west-9/s3/" in await _authorization(signer)


async def test_load__what_the_caller_gives__wins() -> None:
    signer = load_signer(Credentials("MINE", "s"), "us-west-7", "lab")
    text = await _authorization(signer)
    assert "Credential=MINE/" in text
    assert "/us-west-7/s3/" in text
    assert "x-amz-rdma-psn" in text


@pytest.mark.parametrize(("profile", "text"), [(None, "AWS_ACCESS_KEY_ID"), ("nope", "nope")])
def test_load__nothing_to_sign_with__names_the_remedy(profile: str | None, text: str) -> None:
    with pytest.raises(CredentialsError, match=text):
        load_signer(None, None, profile)


async def test_sign__session_token__is_sent() -> None:
    signer = Signer(Credentials("A", "s", "TOKEN"), "r")
    headers = await signer.sign("PUT", "http://h/b", {}, None)
    assert headers["X-Amz-Security-Token"] == "TOKEN"
    assert headers["X-Amz-Content-SHA256"] == "UNSIGNED-PAYLOAD"


async def test_sign__refresh_fails__is_a_credentials_error() -> None:
    def refresh() -> dict[str, str]:
        raise CredentialRetrievalError(provider="role", error_msg="gone")

    expired = RefreshableCredentials.create_from_metadata(
        {"access_key": "A", "secret_key": "s", "token": "t", "expiry_time": "2000-01-01T00:00:00Z"},
        refresh_using=refresh,
        method="role",
    )
    with pytest.raises(CredentialsError, match="gone"):
        await Signer(expired, "r").sign("GET", "http://h/", {}, b"")
