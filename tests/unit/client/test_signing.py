"""Where credentials come from, and what a signature covers."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials, RefreshableCredentials
from botocore.exceptions import CredentialRetrievalError

from gateway.client.errors import CredentialsError
from gateway.client.signing import Signer, load_signer

_DAYS = {day: time.struct_time((2026, 2, day, 1, 2, 3, 0, 0, 0)) for day in (1, 2)}


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


def _botocores(
    method: str, url: str, headers: dict[str, str], credentials: Credentials, region: str
) -> str:
    """The signature that botocore gives a request with these headers."""
    auth = S3SigV4Auth(credentials, "s3", region)
    unsigned = {name: value for name, value in headers.items() if name != "Authorization"}
    request = AWSRequest(method=method, url=url, headers=unsigned, data=b"")
    request.context["timestamp"] = headers["X-Amz-Date"]
    return str(
        auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request)
    )


@pytest.mark.parametrize(
    ("method", "url"),
    [
        ("GET", "http://h:9000/b/k"),
        ("GET", "http://h:80/"),
        ("HEAD", "https://Store.Example:443/b/k"),
        ("GET", "https://[fd00::1]:9000/b/k"),
        ("PUT", "http://h/b/a%20b/%C3%A9//../~-._%28"),
        ("PUT", "http://h/b/k?uploadId=x%2By&partNumber=10&a=&B=1"),
        ("POST", "http://h/b/k?uploads="),
    ],
)
@pytest.mark.parametrize("payload", [None, b"", b"<xml/>"])
async def test_sign__any_request__is_botocores_signature(
    method: str, url: str, payload: bytes | None
) -> None:
    credentials = Credentials("AKID", "se/cret+", "tok en")
    given = {
        "Range": "bytes=0-4095",
        "x-amz-meta-name": "two  blanks",
        "x-amz-meta-utf8": "caf\u00e9 \u2603",
        "x-amz-rdma-token": "rc:00:1:2:3",
    }
    headers = await Signer(credentials, "eu-west-9").sign(method, url, given, payload)
    assert headers.items() >= given.items()
    signature = headers["Authorization"].rpartition("Signature=")[2]
    assert signature == _botocores(method, url, headers, credentials, "eu-west-9")


async def test_sign__another_day_or_secret__derives_another_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    credentials = Credentials("AKID", "first")
    signer = Signer(credentials, "r")
    for day, secret in ((1, "first"), (2, "first"), (2, "second")):
        credentials.secret_key = secret
        monkeypatch.setattr(time, "gmtime", lambda day=day: _DAYS[day])
        headers = await signer.sign("GET", "http://h/", {}, b"")
        signature = headers["Authorization"].rpartition("=")[2]
        assert signature == _botocores("GET", "http://h/", headers, credentials, "r")
