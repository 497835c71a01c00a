"""The port's values and botocore's."""

from datetime import UTC, datetime
from urllib.parse import parse_qsl

import pytest

from gateway.errors import ClientError, S3Code
from gateway.storage.port import ObjectAttributes, ObjectDraft, Retention, RetentionMode
from gateway.storage.upstream import values
from gateway.wire.checksums import Algorithm
from gateway.wire.conditional import Conditions


def test_object_headers__bytes_of_a_client__same_bytes_as_utf_8() -> None:
    sent = "sm\u00f8rrebr\u00f8d \U0001f600".encode().decode(
        "latin-1"
    )  # as a server reads a header
    attributes = ObjectAttributes(headers={"content-type": "x/y"}, metadata={"a": sent})
    raw = values.object_headers(attributes, "owner")
    assert raw.headers == {
        "content-type": "x/y",
        "x-amz-meta-a": "sm\u00f8rrebr\u00f8d \U0001f600",
        "x-amz-meta-s3rdma-owner": "owner",
    }


def test_object_headers__owner_claimed_by_the_client__not_believed() -> None:
    attributes = ObjectAttributes(metadata={"s3rdma-owner": "somebody"})
    assert values.object_headers(attributes, "").headers == {}


def test_object_headers__bytes_that_are_no_utf_8__refused() -> None:
    with pytest.raises(ClientError) as caught:
        values.object_headers(ObjectAttributes(metadata={"a": "\u00ff"}), "")
    assert caught.value.code is S3Code.INVALID_ARGUMENT


def test_object_parameters__tags__spaces_are_no_pluses() -> None:
    tags = (("a b", "c+d"), ("\u00fc", "&="))
    given = values.object_parameters(ObjectAttributes(tags=tags))
    assert "+" not in given["Tagging"]
    assert tuple(parse_qsl(given["Tagging"])) == tags


def test_object_parameters__lock_and_class__as_s3_names_them() -> None:
    attributes = ObjectAttributes(
        storage_class="GLACIER",
        retention=Retention(RetentionMode.COMPLIANCE, 1_800_000_000_000_000_000),
        legal_hold=True,
    )
    assert values.object_parameters(attributes) == {
        "StorageClass": "GLACIER",
        "ObjectLockMode": "COMPLIANCE",
        "ObjectLockRetainUntilDate": datetime(2027, 1, 15, 8, tzinfo=UTC),
        "ObjectLockLegalHoldStatus": "ON",
    }


def test_location__of_a_region__named_but_for_the_first() -> None:
    assert values.location("us-east-1") == {}
    wanted = {"CreateBucketConfiguration": {"LocationConstraint": "eu-west-1"}}
    assert values.location("eu-west-1") == wanted


def test_condition_parameters__each__quoted() -> None:
    given = values.condition_parameters(Conditions(if_match=("a", "b"), if_none_match=("*",)))
    assert given == {"IfMatch": '"a", "b"', "IfNoneMatch": "*"}


def test_integrity_parameters__draft__md5_and_what_the_service_keeps() -> None:
    draft = ObjectDraft(0, "d41d8cd98f00b204e9800998ecf8427e", checksums={Algorithm.CRC32: "AA=="})
    md5 = {"ContentMD5": "1B2M2Y8AsgTpgAmY7PhCfg=="}
    assert values.integrity_parameters(draft, checksums=False) == md5
    assert values.integrity_parameters(draft, checksums=True) == md5 | {"ChecksumCRC32": "AA=="}
