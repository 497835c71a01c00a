"""CORS: documents, matching, preflight, and what other replies carry."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from s3_desk import Desk, refused
from storing import new_bucket

from gateway.errors import ClientError, InternalError, S3Code
from gateway.s3.cors import (
    CorsRule,
    CrossOrigin,
    allowance,
    cors_rules,
    cross_origin_headers,
    preflight,
    read_cors,
)
from gateway.storage.memory import MemoryStorage
from gateway.storage.port import BucketInfo
from gateway.wire.request import RequestHead
from gateway.wire.xml import parse_xml, render

VARY = ("vary", "Origin, Access-Control-Request-Headers, Access-Control-Request-Method")
GET_AND_PUT = {
    "AllowedMethods": ["GET", "PUT"],
    "AllowedOrigins": ["https://*.example", "null"],
    "AllowedHeaders": ["X-Amz-*", "content-type"],
    "ExposeHeaders": ["ETag", "x-amz-meta-a"],
    "MaxAgeSeconds": 300,
    "ID": "first",
}
ANYONE = {"AllowedMethods": ["GET"], "AllowedOrigins": ["*"]}


def head(method: str = "GET", **headers: str) -> RequestHead:
    fields = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return RequestHead(method, "/shop/k", "", fields)


def options(**headers: str) -> RequestHead:
    return head("OPTIONS", **headers)


async def put_cors(desk: Desk, *rules: dict[str, object]) -> None:
    await desk.ask("PutBucketCors", Bucket="shop", CORSConfiguration={"CORSRules": list(rules)})


# Documents


async def test_cors__put__comes_back_whole(desk: Desk) -> None:
    await put_cors(desk, GET_AND_PUT, ANYONE)
    found = await desk.ask("GetBucketCors", Bucket="shop")
    assert found["CORSRules"] == [GET_AND_PUT, ANYONE]


async def test_cors__deleted__is_not_there(desk: Desk) -> None:
    await put_cors(desk, ANYONE)
    gone = await desk.ask("DeleteBucketCors", Bucket="shop")
    assert gone["ResponseMetadata"]["HTTPStatusCode"] == 204
    with refused(S3Code.NO_SUCH_CORS_CONFIGURATION):
        await desk.ask("GetBucketCors", Bucket="shop")


def rule_xml(*children: tuple[str, str]) -> str:
    required = {"AllowedMethod": "GET", "AllowedOrigin": "*"}
    for name, _ in children:
        required.pop(name, None)
    listed = "".join(f"<{name}>{text}</{name}>" for name, text in (*required.items(), *children))
    return f"<CORSRule>{listed}</CORSRule>"


@pytest.mark.parametrize(
    ("rules", "code"),
    [
        ("", S3Code.MALFORMED_XML),
        ("<CORSRule/>", S3Code.MALFORMED_XML),
        ("<Other/>", S3Code.MALFORMED_XML),
        ("<CORSRule><AllowedMethod>GET</AllowedMethod></CORSRule>", S3Code.MALFORMED_XML),
        (rule_xml(("Extra", "x")), S3Code.MALFORMED_XML),
        (rule_xml(("MaxAgeSeconds", "soon")), S3Code.MALFORMED_XML),
        (rule_xml(("MaxAgeSeconds", "1"), ("MaxAgeSeconds", "2")), S3Code.MALFORMED_XML),
        (rule_xml(("ID", "i" * 256)), S3Code.MALFORMED_XML),
        (rule_xml(("AllowedMethod", "OPTIONS")), S3Code.INVALID_REQUEST),
        (rule_xml(("AllowedMethod", "get")), S3Code.INVALID_REQUEST),
        (rule_xml(("AllowedOrigin", "*.a.*")), S3Code.INVALID_REQUEST),
        (rule_xml(("AllowedOrigin", "a&#10;b")), S3Code.INVALID_REQUEST),
        (rule_xml(("AllowedHeader", "**")), S3Code.INVALID_REQUEST),
        (rule_xml(("ExposeHeader", "x-*")), S3Code.INVALID_REQUEST),
        (rule_xml(("ExposeHeader", "a: b")), S3Code.INVALID_REQUEST),
        (rule_xml() * 101, S3Code.INVALID_REQUEST),
    ],
)
def test_read_cors__without_sense__is_refused(rules: str, code: S3Code) -> None:
    root = parse_xml(f"<CORSConfiguration>{rules}</CORSConfiguration>".encode(), 1 << 16)
    with pytest.raises(ClientError) as caught:
        read_cors(root)
    assert caught.value.code is code


def test_read_cors__a_hundred_rules__are_taken() -> None:
    text = f"<CORSConfiguration>{rule_xml() * 100}</CORSConfiguration>"
    stored = render(read_cors(parse_xml(text.encode(), 1 << 16))).decode()
    bucket = BucketInfo("shop", 0, "us-east-1", settings={"cors": stored})
    assert cors_rules(bucket) == (CorsRule(("*",), ("GET",)),) * 100


# Matching


def rules(origins: Iterable[str], headers: Iterable[str] = ()) -> tuple[CorsRule, ...]:
    return (CorsRule(tuple(origins), ("GET",), tuple(headers)),)


@pytest.mark.parametrize(
    ("pattern", "origin", "matches"),
    [
        ("*suffix", "foo.suffix", True),
        ("*suffix", "foo.suffix.get", False),
        ("start*end", "startend", True),
        ("start*end", "start12end", True),
        ("start*end", "0start12end", False),
        ("startt*tend", "starttend", False),
        ("prefix*", "prefix", True),
        ("prefix*", "bla.prefix", False),
        ("http://a.b", "http://a.b", True),
        ("http://a.b", "HTTP://a.b", False),
    ],
)
def test_allowance__origin__is_matched_by_its_one_wildcard(
    pattern: str, origin: str, matches: bool
) -> None:
    found = allowance(rules([pattern]), CrossOrigin(origin, "GET"))
    assert (found is not None) is matches
    if found is not None:
        assert dict(found)["access-control-allow-origin"] == origin
        assert dict(found)["access-control-allow-credentials"] == "true"


def test_allowance__any_origin__is_a_star_without_credentials() -> None:
    found = dict(allowance(rules(["*"]), CrossOrigin("http://a", "GET")) or ())
    assert found == {
        "access-control-allow-origin": "*",
        "access-control-allow-methods": "GET",
    }


@pytest.mark.parametrize(
    ("allowed", "asked", "matches"),
    [
        ((), ("x-a",), False),
        (("*",), ("x-a", "x-b"), True),
        (("x-*",), ("x-a", "y"), False),
        (("X-A*",), ("x-ab",), True),
        (("x-a",), (), True),
    ],
)
def test_allowance__headers_of_a_preflight__must_all_be_allowed(
    allowed: tuple[str, ...], asked: tuple[str, ...], matches: bool
) -> None:
    found = allowance(rules(["*"], allowed), CrossOrigin("http://a", "GET", asked))
    assert (found is not None) is matches


def test_allowance__several_rules__the_first_that_allows_it_answers() -> None:
    both = (CorsRule(("http://a",), ("PUT",)), CorsRule(("http://*",), ("GET", "HEAD")))
    found = dict(allowance(both, CrossOrigin("http://a", "GET")) or ())
    assert found["access-control-allow-methods"] == "GET, HEAD"
    assert allowance(both, CrossOrigin("http://a", "DELETE")) is None


# Preflight


async def test_preflight__allowed__says_all_that_the_rule_does(desk: Desk) -> None:
    await put_cors(desk, GET_AND_PUT)
    asked = options(
        origin="https://x.example",
        access_control_request_method="PUT",
        access_control_request_headers="X-Amz-Date, Content-Type,",
    )
    reply = await preflight(asked, "shop", desk.storage)
    assert reply.status == 200
    assert dict(reply.headers) == {
        "access-control-allow-origin": "https://x.example",
        "access-control-allow-methods": "GET, PUT",
        "access-control-allow-headers": "x-amz-date, content-type",
        "access-control-expose-headers": "ETag, x-amz-meta-a",
        "access-control-max-age": "300",
        "access-control-allow-credentials": "true",
        "vary": VARY[1],
    }


@pytest.mark.parametrize(
    "asked",
    [
        options(),
        options(origin="http://a"),
        options(origin="http://a", access_control_request_method="PATCH"),
    ],
    ids=["no origin", "no method", "no method of S3's"],
)
async def test_preflight__announces_nothing__is_400(desk: Desk, asked: RequestHead) -> None:
    await put_cors(desk, ANYONE)
    with refused(S3Code.BAD_REQUEST):
        await preflight(asked, "shop", desk.storage)


async def test_preflight__not_allowed__is_403_that_says_why(desk: Desk) -> None:
    asked = options(origin="http://a", access_control_request_method="PUT")
    for bucket in ("shop", None):
        with refused(S3Code.ACCESS_FORBIDDEN) as caught:
            await preflight(asked, bucket, desk.storage)
        assert "CORS is not enabled for this bucket" in caught.value.message
    await put_cors(desk, ANYONE)
    with refused(S3Code.ACCESS_FORBIDDEN) as caught:
        await preflight(asked, "shop", desk.storage)
    assert "not allowed" in caught.value.message
    assert caught.value.details == {"Method": "PUT"}
    with refused(S3Code.NO_SUCH_BUCKET):
        await preflight(asked, "none", desk.storage)


# Other replies


async def test_reply__of_an_allowed_origin__carries_the_headers(desk: Desk) -> None:
    await put_cors(desk, GET_AND_PUT)
    found = await cross_origin_headers(head(origin="null"), "shop", desk.storage)
    assert ("access-control-allow-origin", "null") in found
    assert found[-1] == VARY


async def test_reply__of_another_origin__varies_only(desk: Desk) -> None:
    await put_cors(desk, GET_AND_PUT)
    assert await cross_origin_headers(head(origin="http://b"), "shop", desk.storage) == (VARY,)


@pytest.mark.parametrize(
    ("request_head", "bucket"),
    [
        (head(), "shop"),
        (head(origin="http://a"), None),
        (head(origin="http://a"), "none"),
        (options(origin="http://a", access_control_request_method="GET"), "shop"),
    ],
    ids=["no origin", "no bucket named", "no such bucket", "preflight"],
)
async def test_reply__nothing_to_say__carries_nothing(
    desk: Desk, request_head: RequestHead, bucket: str | None
) -> None:
    await put_cors(desk, ANYONE)
    assert await cross_origin_headers(request_head, bucket, desk.storage) == ()


async def test_reply__bucket_without_rules__carries_nothing(storage: MemoryStorage) -> None:
    await storage.create_bucket(new_bucket("shop"))
    assert await cross_origin_headers(head(origin="http://a"), "shop", storage) == ()


async def test_reply__storage_that_fails__is_not_made_worse() -> None:
    class Broken(MemoryStorage):
        async def head_bucket(self, bucket: str) -> BucketInfo:
            raise InternalError("disk")

    assert await cross_origin_headers(head(origin="http://a"), "shop", Broken()) == ()
