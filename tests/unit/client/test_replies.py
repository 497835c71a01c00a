"""S3's documents as captured from its API reference, and replies that are not S3's."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from gateway.client import replies
from gateway.client.errors import S3Error
from gateway.client.models import Bucket, Listing, ObjectSummary

LISTING = b"""<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
  <Name>quotes</Name><Prefix>E</Prefix><IsTruncated>true</IsTruncated>
  <NextContinuationToken>1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J/wm36Hy4vbOwM=</NextContinuationToken>
  <Contents>
    <Key>Example%2B+%01.txt</Key><LastModified>2013-09-17T18:07:53.000Z</LastModified>
    <ETag>"599bab3ed2c697f1d26842727561fd94"</ETag><Size>857</Size>
  </Contents>
  <CommonPrefixes><Prefix>photos/%C3%A9/</Prefix></CommonPrefixes>
</ListBucketResult>"""

ERROR = b"""<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>NoSuchKey</Code><Message>The resource you requested does not exist</Message>
<Resource>/mybucket/myfoto.jpg</Resource><RequestId>4442587FB7D0A2F9</RequestId></Error>"""


def test_listing__of_s3__is_decoded() -> None:
    row = ObjectSummary(
        "Example+ \x01.txt", 857, "599bab3ed2c697f1d26842727561fd94", "2013-09-17T18:07:53.000Z"
    )
    token = "1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J/wm36Hy4vbOwM="
    assert replies.listing(LISTING) == Listing((row,), ("photos/é/",), token)


def test_buckets__of_s3__are_listed() -> None:
    body = (
        b'<ListAllMyBucketsResult xmlns="http://s3.amazonaws.com/doc/2006-03-01"><Buckets><Bucket>'
        b"<CreationDate>2019-12-11T23:32:47+00:00</CreationDate><Name>one</Name></Bucket></Buckets>"
        b"<Owner><ID>x</ID></Owner></ListAllMyBucketsResult>"
    )
    assert replies.buckets(body) == (Bucket("one", "2019-12-11T23:32:47+00:00"),)


def test_s3_error__of_s3__keeps_code_message_and_request() -> None:
    headers = {"x-amz-request-id": "4442587FB7D0A2F9", "Retry-After": "3"}
    error = replies.s3_error(404, headers, ERROR)
    assert (error.code, error.status, error.request_id) == ("NoSuchKey", 404, "4442587FB7D0A2F9")
    assert error.retry_after_s == 3
    assert "does not exist" in str(error)


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (404, b"", "NotFound"),
        (502, b"<html>bad gateway", "BadGateway"),
        (599, b"<Other/>", "HTTP599"),
    ],
)
def test_s3_error__without_xml__is_named_by_its_status(status: int, body: bytes, code: str) -> None:
    assert replies.s3_error(status, {}, body).code == code


def test_s3_error__entity_bomb__is_not_expanded() -> None:
    bomb = b'<!DOCTYPE x [<!ENTITY a "aaaa">]><Error><Code>&a;</Code></Error>'
    assert replies.s3_error(400, {}, bomb).code == "BadRequest"


@pytest.mark.parametrize("body", [b"", b"<Wrong/>", b"not xml"])
def test_document__of_another_kind__is_an_error(body: bytes) -> None:
    with pytest.raises(S3Error, match="ListBucketResult"):
        replies.listing(body)


def test_completed__error_under_200__is_raised() -> None:
    with pytest.raises(S3Error, match="NoSuchKey"):
        replies.completed_etag(ERROR)


def test_object_head__without_length__is_an_error() -> None:
    with pytest.raises(S3Error, match="Content-Length"):
        replies.object_head({})


def test_complete_request__parts__are_numbered_in_order() -> None:
    root = ElementTree.fromstring(replies.complete_request(["a", "b"]))
    s3 = {"s3": "http://s3.amazonaws.com/doc/2006-03-01/"}
    assert [node.text for node in root.iterfind("s3:Part/s3:PartNumber", s3)] == ["1", "2"]
    assert [node.text for node in root.iterfind("s3:Part/s3:ETag", s3)] == ['"a"', '"b"']
