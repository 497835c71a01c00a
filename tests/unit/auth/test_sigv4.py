"""Every way a signature is refused, with S3's code and the elements its clients read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import quote

import pytest
from request_heads import (
    ACCESS_KEY,
    REGION,
    SECRET_KEY,
    STORE,
    head,
    presigned_by_botocore,
    signed_by_botocore,
    with_header,
)

from gateway.auth.credentials import Credentials, CredentialStore, Scope, derive_signing_key, sign
from gateway.auth.payload import PayloadMode
from gateway.auth.sigv4 import require_signed, verify
from gateway.errors import ClientError, S3Code
from gateway.wire.request import RequestHead

URL = "http://127.0.0.1:9000/bucket/key"
RDMA_TOKEN = "x-amz-rdma-token"
NOT_SIGNED = "There were headers present in the request which were not signed"


def signed(headers: Mapping[str, str] | None = None) -> tuple[RequestHead, float]:
    return signed_by_botocore("GET", URL, headers or {})


def presigned(expires_s: int = 3600) -> tuple[RequestHead, float]:
    return presigned_by_botocore("GET", URL, {}, expires_s)


def refused(head_: RequestHead, now_s: float, region: str = REGION) -> ClientError:
    with pytest.raises(ClientError) as caught:
        verify(head_, STORE, now_s, region)
    return caught.value


def with_authorization(old: str, new: str) -> tuple[RequestHead, float]:
    signed_head, now_s = signed()
    text = signed_head.get("authorization") or ""
    assert old in text
    return with_header(signed_head, "authorization", text.replace(old, new)), now_s


def with_query(head_: RequestHead, name: str, value: str | None) -> RequestHead:
    pairs = [pair for pair in head_.raw_query.split("&") if not pair.startswith(f"{name}=")]
    if value is not None:
        pairs.append(f"{name}={value}")
    return replace(head_, raw_query="&".join(pairs))


def hand_signed(*headers: tuple[str, str], date: str = "20260101T000000Z") -> RequestHead:
    """Signed without botocore and without our canonicaliser: it is too plain to err."""
    names = ";".join(name for name, _ in headers)
    lines = "".join(f"{name}:{value}\n" for name, value in headers)
    payload = dict(headers).get("x-amz-content-sha256", EMPTY)
    canonical = f"GET\n/bucket/key\n\n{lines}\n{names}\n{payload}"
    scope = Scope(date[:8], REGION, "s3")
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{date}\n{scope.text}\n{digest}"
    signature = sign(derive_signing_key(SECRET_KEY, scope), text)
    authorization = (
        f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/{scope.text}, "
        f"SignedHeaders={names}, Signature={signature}"
    )
    return RequestHead("GET", "/bucket/key", "", (*headers, ("authorization", authorization)))


EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
NEW_YEAR_S = 1_767_225_600.0  # 2026-01-01T00:00:00Z


def test_verify__no_signature__is_anonymous() -> None:
    verified = verify(head(host="h"), STORE, 0.0, REGION)

    assert verified.principal.anonymous
    assert verified.payload.mode is PayloadMode.UNSIGNED
    assert verified.chunk_chain() is None


def test_verify__anonymous_signed_chunks__have_no_chain() -> None:
    streaming = head(x_amz_content_sha256="STREAMING-AWS4-HMAC-SHA256-PAYLOAD")

    with pytest.raises(ClientError) as caught:
        verify(streaming, STORE, 0.0, REGION).chunk_chain()

    assert caught.value.code is S3Code.ACCESS_DENIED


@pytest.mark.parametrize(
    ("authorization", "code"),
    [
        ("", S3Code.ACCESS_DENIED),
        ("AWS AKID:c2ln", S3Code.INVALID_REQUEST),
        ("Basic dTpw", S3Code.INVALID_ARGUMENT),
        ("AWS4-ECDSA-P256-SHA256 Credential=a", S3Code.INVALID_ARGUMENT),
        ("AWS4-HMAC-SHA256", S3Code.AUTHORIZATION_HEADER_MALFORMED),
        (
            "AWS4-HMAC-SHA256 Credential=a, SignedHeaders=host",
            S3Code.AUTHORIZATION_HEADER_MALFORMED,
        ),
        (
            "AWS4-HMAC-SHA256 Credential=a, Credential=b, Signature=c",
            S3Code.AUTHORIZATION_HEADER_MALFORMED,
        ),
    ],
)
def test_verify__authorization_of_another_shape__names_the_fault(
    authorization: str, code: S3Code
) -> None:
    assert refused(head(host="h", authorization=authorization), 0.0).code is code


def test_verify__two_authorization_headers__is_malformed() -> None:
    signed_head, now_s = signed()
    twice = replace(
        signed_head,
        headers=(*signed_head.headers, ("authorization", signed_head.get("authorization") or "")),
    )

    assert refused(twice, now_s).code is S3Code.AUTHORIZATION_HEADER_MALFORMED


def test_verify__header_and_query__is_invalid_argument() -> None:
    signed_head, now_s = signed()
    both = replace(signed_head, raw_query=presigned()[0].raw_query)

    assert refused(both, now_s).code is S3Code.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/s3/", "/ec2/"),
        ("aws4_request", "aws5_request"),
        (f"Credential={ACCESS_KEY}/", "Credential="),
        ("SignedHeaders=host;", "SignedHeaders="),
        ("SignedHeaders=host;", "SignedHeaders=Host;"),
        ("SignedHeaders=host;", "SignedHeaders=host;;"),
        ("Signature=", "Signature=0"),
        ("Signature=", "Signature=G"),
    ],
)
def test_verify__part_of_the_authorization_is_wrong__is_malformed(old: str, new: str) -> None:
    changed, now_s = with_authorization(old, new)

    assert refused(changed, now_s).code is S3Code.AUTHORIZATION_HEADER_MALFORMED


def test_verify__another_region__names_ours() -> None:
    signed_head, now_s = signed()

    error = refused(signed_head, now_s, "eu-central-1")

    assert error.code is S3Code.AUTHORIZATION_HEADER_MALFORMED
    assert error.details["Region"] == "eu-central-1"


def test_verify__presigned_for_another_region__names_ours() -> None:
    presigned_head, now_s = presigned()

    error = refused(presigned_head, now_s, "eu-central-1")

    assert error.code is S3Code.AUTHORIZATION_QUERY_PARAMETERS_ERROR
    assert error.details["Region"] == "eu-central-1"


def test_verify__credential_date_differs_from_x_amz_date__is_malformed() -> None:
    signed_head, now_s = signed()
    day = (signed_head.get("x-amz-date") or "")[:8]
    changed, _ = with_authorization(f"/{day}/", "/19990101/")

    assert refused(changed, now_s).code is S3Code.AUTHORIZATION_HEADER_MALFORMED


def test_verify__unknown_access_key__is_named() -> None:
    changed, now_s = with_authorization(ACCESS_KEY, "AKIDNOBODY")

    error = refused(changed, now_s)

    assert error.code is S3Code.INVALID_ACCESS_KEY_ID
    assert error.details == {"AWSAccessKeyId": "AKIDNOBODY"}


def test_verify__access_key_with_a_slash__is_read_whole() -> None:
    changed, now_s = with_authorization(ACCESS_KEY, "a/b")

    assert refused(changed, now_s).details == {"AWSAccessKeyId": "a/b"}


@pytest.mark.parametrize("skew_s", [901.0, -901.0])
def test_verify__clock_skew_over_15_minutes__tells_both_times(skew_s: float) -> None:
    signed_head, now_s = signed()

    error = refused(signed_head, now_s + skew_s)

    assert error.code is S3Code.REQUEST_TIME_TOO_SKEWED
    assert error.details["RequestTime"] == signed_head.get("x-amz-date")
    assert error.details["MaxAllowedSkewMilliseconds"] == "900000"
    assert error.details["ServerTime"].endswith("Z")


@pytest.mark.parametrize("skew_s", [900.0, -900.0])
def test_verify__clock_skew_of_15_minutes__is_accepted(skew_s: float) -> None:
    signed_head, now_s = signed()

    assert not verify(signed_head, STORE, now_s + skew_s, REGION).principal.anonymous


@pytest.mark.parametrize(
    "date", [None, "", "yesterday", "20261301T000000Z", "2026-01-01T00:00:00Z"]
)
def test_verify__no_usable_date__is_access_denied(date: str | None) -> None:
    signed_head, now_s = signed()

    assert refused(with_header(signed_head, "x-amz-date", date), now_s).code is S3Code.ACCESS_DENIED


@pytest.mark.parametrize(
    "date",
    ["Thu, 01 Jan 2026 00:00:00 GMT", "Thursday, 01-Jan-26 00:00:00 GMT", "20260101T000000Z"],
)
def test_verify__date_header_in_place_of_x_amz_date__is_accepted(date: str) -> None:
    dated = hand_signed(("date", date), ("host", "h"), ("x-amz-content-sha256", EMPTY))

    assert not verify(dated, STORE, NEW_YEAR_S, REGION).principal.anonymous


def test_verify__no_content_sha256__stands_for_an_empty_body() -> None:
    plain = hand_signed(("host", "h"), ("x-amz-date", "20260101T000000Z"))

    verified = verify(plain, STORE, NEW_YEAR_S, REGION)

    assert verified.payload.mode is PayloadMode.SHA256
    assert verified.payload.sha256_hex == EMPTY


def test_verify__host_signed_without_its_port__is_held_to_the_header() -> None:
    fields = (("host", "gateway"), ("x-amz-date", "20260101T000000Z"))

    assert not verify(hand_signed(*fields), STORE, NEW_YEAR_S, REGION).principal.anonymous
    with_port = with_header(hand_signed(*fields), "host", "gateway:9000")
    assert refused(with_port, NEW_YEAR_S).code is S3Code.SIGNATURE_DOES_NOT_MATCH


def test_verify__content_sha256__is_signed_word_for_word() -> None:
    upper = hand_signed(
        ("host", "h"), ("x-amz-content-sha256", EMPTY.upper()), ("x-amz-date", "20260101T000000Z")
    )

    assert verify(upper, STORE, NEW_YEAR_S, REGION).payload.sha256_hex == EMPTY


def test_verify__content_sha256_is_no_digest__is_invalid_argument() -> None:
    signed_head, now_s = signed()

    error = refused(with_header(signed_head, "x-amz-content-sha256", "abc"), now_s)

    assert error.code is S3Code.INVALID_ARGUMENT
    assert error.details["ArgumentName"] == "x-amz-content-sha256"


def test_verify__signature_differs__tells_what_was_to_be_signed_and_no_signature() -> None:
    signed_head, now_s = signed()
    changed = replace(signed_head, method="PUT")

    error = refused(changed, now_s)

    assert error.code is S3Code.SIGNATURE_DOES_NOT_MATCH
    assert error.details["AWSAccessKeyId"] == ACCESS_KEY
    assert error.details["StringToSign"].startswith("AWS4-HMAC-SHA256\n")
    signature = (signed_head.get("authorization") or "")[-64:]
    assert signature not in str(error.details)
    assert SECRET_KEY not in str(error.details)


def test_verify__signed_header_is_missing__is_named() -> None:
    signed_head, now_s = signed({"x-amz-meta-a": "1"})

    error = refused(with_header(signed_head, "x-amz-meta-a", None), now_s)

    assert error.code is S3Code.SIGNATURE_DOES_NOT_MATCH
    assert "x-amz-meta-a" in error.message


def test_verify__x_amz_header_unsigned__is_access_denied_and_named() -> None:
    signed_head, now_s = signed()

    error = refused(with_header(signed_head, "x-amz-acl", "public-read"), now_s)

    assert (error.code, error.message) == (S3Code.ACCESS_DENIED, NOT_SIGNED)
    assert error.details["HeadersNotSigned"] == "x-amz-acl"


def test_verify__presigned_with_an_unsigned_x_amz_header__is_access_denied() -> None:
    presigned_head, now_s = presigned()

    error = refused(with_header(presigned_head, "x-amz-acl", "public-read"), now_s)

    assert error.details["HeadersNotSigned"] == "x-amz-acl"


def test_verify__presigned_with_content_sha256_header__stays_unsigned_payload() -> None:
    presigned_head, now_s = presigned()

    verified = verify(
        with_header(presigned_head, "x-amz-content-sha256", EMPTY), STORE, now_s, REGION
    )

    assert verified.payload.mode is PayloadMode.UNSIGNED


def test_verify__rdma_header_unsigned__is_400() -> None:
    signed_head, now_s = signed()

    error = refused(with_header(signed_head, RDMA_TOKEN, "00" * 44), now_s)

    assert error.code is S3Code.INVALID_ARGUMENT
    assert error.details["HeadersNotSigned"] == RDMA_TOKEN


def test_require_signed__rdma_header_signed__passes() -> None:
    signed_head, now_s = signed({RDMA_TOKEN: "00" * 44})

    require_signed(signed_head, verify(signed_head, STORE, now_s, REGION))


def test_require_signed__rdma_header_added_later__is_400() -> None:
    signed_head, now_s = signed()
    verified = verify(signed_head, STORE, now_s, REGION)

    with pytest.raises(ClientError) as caught:
        require_signed(with_header(signed_head, RDMA_TOKEN, "00" * 44), verified)

    assert caught.value.code is S3Code.INVALID_ARGUMENT


def test_require_signed__anonymous__is_403() -> None:
    anonymous = head(host="h")

    with pytest.raises(ClientError) as caught:
        require_signed(anonymous, verify(anonymous, STORE, 0.0, REGION))

    assert caught.value.code is S3Code.ACCESS_DENIED


@pytest.mark.parametrize(
    "name", ["Algorithm", "Credential", "Signature", "Date", "SignedHeaders", "Expires"]
)
def test_verify__presigned_without_one_parameter__is_refused(name: str) -> None:
    presigned_head, now_s = presigned()

    error = refused(with_query(presigned_head, f"X-Amz-{name}", None), now_s)

    assert error.code is S3Code.AUTHORIZATION_QUERY_PARAMETERS_ERROR


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Algorithm", "AWS4-HMAC-SHA1"),
        ("Date", "20260101"),
        ("Date", "20260101T000000Z"),
        ("Credential", "a/b"),
        ("SignedHeaders", "range"),
        ("Signature", "x"),
        ("Expires", "604801"),
        ("Expires", "-1"),
        ("Expires", "1.5"),
        ("Expires", "%2B5"),
        ("Expires", ""),
        ("Expires", "1" * 5000),
    ],
)
def test_verify__presigned_parameter_out_of_range__is_refused(name: str, value: str) -> None:
    presigned_head, now_s = presigned()

    error = refused(with_query(presigned_head, f"X-Amz-{name}", value), now_s)

    assert error.code is S3Code.AUTHORIZATION_QUERY_PARAMETERS_ERROR


def test_verify__presigned_parameter_twice__is_refused() -> None:
    presigned_head, now_s = presigned()
    twice = replace(presigned_head, raw_query=presigned_head.raw_query + "&X-Amz-Expires=3600")

    error = refused(twice, now_s)

    assert error.code is S3Code.AUTHORIZATION_QUERY_PARAMETERS_ERROR
    assert "once" in error.message


def test_verify__presigned_expired__tells_when() -> None:
    presigned_head, now_s = presigned(60)

    error = refused(presigned_head, now_s + 61)

    assert (error.code, error.message) == (S3Code.ACCESS_DENIED, "Request has expired")
    assert list(error.details) == ["X-Amz-Expires", "Expires", "ServerTime"]
    assert error.details["X-Amz-Expires"] == "60"


def test_verify__presigned_at_its_last_second__is_accepted() -> None:
    presigned_head, now_s = presigned(60)

    assert verify(presigned_head, STORE, now_s + 60, REGION).expires_s == now_s + 60


def test_verify__presigned_from_the_future__is_not_yet_valid() -> None:
    presigned_head, now_s = presigned()

    assert refused(presigned_head, now_s - 901).message == "Request is not yet valid"


def test_verify__presigned_changed__does_not_match() -> None:
    presigned_head, now_s = presigned()
    signature = presigned_head.raw_query.partition("X-Amz-Signature=")[2][:64]
    forged = f"{int(signature[0], 16) ^ 1:x}{signature[1:]}"
    for changed in (
        replace(presigned_head, raw_path="/bucket/key2"),
        replace(presigned_head, method="PUT"),
        replace(presigned_head, raw_query=presigned_head.raw_query + "&versionId=1"),
        with_query(presigned_head, "X-Amz-Expires", "3601"),
        with_query(presigned_head, "X-Amz-Signature", forged),
        with_header(presigned_head, "host", "elsewhere"),
    ):
        assert refused(changed, now_s).code is S3Code.SIGNATURE_DOES_NOT_MATCH


def test_verify__presigned_with_version_2__is_invalid_request() -> None:
    old = head(target="/b/k?AWSAccessKeyId=a&Signature=b&Expires=1", host="h")

    assert refused(old, 0.0).code is S3Code.INVALID_REQUEST


def test_verify__query_that_only_looks_presigned__is_anonymous() -> None:
    similar = head(target="/b/k?prefix=X-Amz-Signature&X-Amz-Meta=1", host="h")

    assert verify(similar, STORE, 0.0, REGION).principal.anonymous


def test_verify__presigned_payload_named_in_the_query__is_kept() -> None:
    url = f"{URL}?X-Amz-Content-Sha256={EMPTY}"
    unsigned, now_s = presigned_by_botocore("GET", url, {})

    # botocore signs UNSIGNED-PAYLOAD whatever the parameter says; this one must be refused.
    assert refused(unsigned, now_s).code is S3Code.SIGNATURE_DOES_NOT_MATCH

    named = url.replace(EMPTY, quote("UNSIGNED-PAYLOAD"))
    accepted, now_s = presigned_by_botocore("GET", named, {})
    assert verify(accepted, STORE, now_s, REGION).payload.mode is PayloadMode.UNSIGNED


def test_verify__presigned_chunks__are_not_implemented() -> None:
    url = f"{URL}?X-Amz-Content-Sha256=STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
    presigned_head, now_s = presigned_by_botocore("PUT", url, {})

    assert refused(presigned_head, now_s).code is S3Code.NOT_IMPLEMENTED


def test_verify__session_token__is_signed_and_otherwise_ignored() -> None:
    signed_head, now_s = signed({"x-amz-security-token": "token"})

    assert not verify(signed_head, STORE, now_s, REGION).principal.anonymous
    changed = with_header(signed_head, "x-amz-security-token", "other")
    assert refused(changed, now_s).code is S3Code.SIGNATURE_DOES_NOT_MATCH


def test_verified__repr__holds_no_secret() -> None:
    signed_head, now_s = signed()
    signature = (signed_head.get("authorization") or "")[-64:]

    text = repr(verify(signed_head, STORE, now_s, REGION))

    assert signature not in text
    assert SECRET_KEY not in text


def test_verify__secret_with_another_value__does_not_match() -> None:
    signed_head, now_s = signed()
    other = CredentialStore([Credentials(ACCESS_KEY, SECRET_KEY[:-1] + "z")])

    with pytest.raises(ClientError) as caught:
        verify(signed_head, other, now_s, REGION)

    assert caught.value.code is S3Code.SIGNATURE_DOES_NOT_MATCH
