"""boto3 through a gateway sees what boto3 straight at Ceph sees: replies, errors, versions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from boto3_client import boto3_client
from botocore.exceptions import ClientError
from gateway_process import GatewayProcess
from s3_servers import S3Server, purge_bucket
from upstream_gateway import gateway_before

from gateway.config import MIB

Scene = Callable[[Any, str], list[Any]]

PART = os.urandom(5 * MIB + 1)


@pytest.fixture(scope="module")
def gateway(rgw: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    directory = tmp_path_factory.mktemp("upstream")
    with gateway_before(rgw, directory, "--rdma-fabric", "off") as process:
        yield process


def outcome(call: Callable[..., Any], **given: Any) -> tuple[str, int]:
    """An error's code and status; ("", status) of a success."""
    try:
        return "", call(**given)["ResponseMetadata"]["HTTPStatusCode"]
    except ClientError as error:
        meta = error.response["ResponseMetadata"]
        return error.response["Error"]["Code"], meta["HTTPStatusCode"]


def told(reply: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: reply.get(name) for name in names}


_OF_OBJECT = (
    *("ContentLength", "ContentType", "CacheControl", "ETag", "Metadata", "TagCount"),
    *("LastModified", "ContentRange", "Expires", "ContentEncoding"),
)


def objects(s3: Any, bucket: str) -> list[Any]:
    given = {
        "Body": b"0123456789",
        "ContentType": "text/plain",
        "CacheControl": "no-cache",
        "Metadata": {"a": "b", "two": "words here"},
        "Tagging": "k=v&k2=a%20b",
    }
    found: list[Any] = [told(s3.put_object(Bucket=bucket, Key="k", **given), "ETag")]
    found.append(told(s3.head_object(Bucket=bucket, Key="k"), *_OF_OBJECT))
    whole = s3.get_object(Bucket=bucket, Key="k")
    some = s3.get_object(Bucket=bucket, Key="k", Range="bytes=2-4")
    for reply in (whole, some):
        found.append((told(reply, *_OF_OBJECT), reply["Body"].read()))
    found.append(s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"])
    s3.put_object_tagging(Bucket=bucket, Key="k", Tagging={"TagSet": [{"Key": "x", "Value": "y"}]})
    found.append(s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"])
    s3.delete_object_tagging(Bucket=bucket, Key="k")
    found.append(s3.get_object_tagging(Bucket=bucket, Key="k").get("TagSet", []))
    s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": "k"})
    found.append(told(s3.head_object(Bucket=bucket, Key="copy"), "ETag", "Metadata"))
    return found


def lists(s3: Any, bucket: str) -> list[Any]:
    for key in ("a", "b/1", "b/2", "c d", "\u00fc/\U0001f600", "+", "e/", "e//f"):
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    found: list[Any] = []
    for query in ({}, {"Delimiter": "/"}, {"Prefix": "b/"}, {"Prefix": "e/", "Delimiter": "/"}):
        pages = s3.get_paginator("list_objects_v2").paginate(
            Bucket=bucket, PaginationConfig={"PageSize": 3}, **query
        )
        entries = [
            *(
                (one["Key"], one["ETag"], one["Size"])
                for page in pages
                for one in page.get("Contents", ())
            ),
        ]
        prefixes = [one["Prefix"] for page in pages for one in page.get("CommonPrefixes", ())]
        found.append((entries, prefixes))
    return found


def multipart(s3: Any, bucket: str) -> list[Any]:
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k", ContentType="x/y")["UploadId"]
    named = {"Bucket": bucket, "Key": "k", "UploadId": upload}
    etags = [
        s3.upload_part(PartNumber=number, Body=body, **named)["ETag"]
        for number, body in ((1, PART), (2, b"the end"))
    ]
    shown = s3.list_parts(**named)["Parts"]
    found: list[Any] = [[told(part, "PartNumber", "Size", "ETag") for part in shown]]
    listed = [{"PartNumber": n, "ETag": etag} for n, etag in enumerate(etags, 1)]
    wrong = {"Parts": [{"PartNumber": 1, "ETag": etags[1]}]}
    found.append(outcome(s3.complete_multipart_upload, MultipartUpload=wrong, **named))
    s3.complete_multipart_upload(MultipartUpload={"Parts": listed}, **named)
    found.append(told(s3.head_object(Bucket=bucket, Key="k"), "ETag", "ContentLength"))
    tail = s3.get_object(Bucket=bucket, Key="k", Range=f"bytes={len(PART) - 2}-")["Body"].read()
    found.append(tail == PART[-2:] + b"the end")
    again = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    named["UploadId"] = again
    found.append(len(s3.list_multipart_uploads(Bucket=bucket)["Uploads"]))
    s3.abort_multipart_upload(**named)
    found.append(outcome(s3.abort_multipart_upload, **named))
    return found


def versions(s3: Any, bucket: str) -> list[Any]:
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    ids = [s3.put_object(Bucket=bucket, Key="k", Body=b"%d" % n)["VersionId"] for n in range(3)]
    found: list[Any] = [
        s3.get_object(Bucket=bucket, Key="k", VersionId=one)["Body"].read() for one in ids
    ]
    deleted = s3.delete_object(Bucket=bucket, Key="k")
    found.append(deleted["DeleteMarker"])
    found.append(outcome(s3.get_object, Bucket=bucket, Key="k"))
    listed = s3.list_object_versions(Bucket=bucket)
    found.append([ids.index(one["VersionId"]) for one in listed["Versions"]])
    found.append([one["IsLatest"] for one in listed["DeleteMarkers"]])
    s3.delete_object(Bucket=bucket, Key="k", VersionId=deleted["VersionId"])
    found.append(s3.get_object(Bucket=bucket, Key="k")["Body"].read())
    found.append(s3.get_bucket_versioning(Bucket=bucket)["Status"])
    return found


def conditions(s3: Any, bucket: str) -> list[Any]:
    put = s3.put_object
    found: list[Any] = [outcome(put, Bucket=bucket, Key="k", Body=b"1", IfNoneMatch="*")]
    found.append(outcome(put, Bucket=bucket, Key="k", Body=b"2", IfNoneMatch="*"))
    etag = s3.head_object(Bucket=bucket, Key="k")["ETag"]
    found.append(outcome(put, Bucket=bucket, Key="k", Body=b"3", IfMatch='"0"'))
    found.append(outcome(put, Bucket=bucket, Key="k", Body=PART * 2, IfMatch=etag))
    found.append(outcome(s3.get_object, Bucket=bucket, Key="k", IfMatch=etag))
    found.append(outcome(s3.get_object, Bucket=bucket, Key="absent", IfMatch=etag))
    return found


def documents(s3: Any, bucket: str) -> list[Any]:
    rules = [{"AllowedMethods": ["GET"], "AllowedOrigins": ["https://a.example"]}]
    found: list[Any] = [outcome(s3.get_bucket_cors, Bucket=bucket)]
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": rules})
    shown = s3.get_bucket_cors(Bucket=bucket)["CORSRules"]
    found.append([told(rule, "AllowedMethods", "AllowedOrigins") for rule in shown])
    s3.delete_bucket_cors(Bucket=bucket)
    found.append(outcome(s3.get_bucket_cors, Bucket=bucket))
    s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})
    found.append(s3.get_bucket_tagging(Bucket=bucket)["TagSet"])
    s3.put_object(Bucket=bucket, Key="k", Body=b"", ACL="public-read")
    for acl in (
        s3.get_object_acl(Bucket=bucket, Key="k"),
        s3.get_bucket_acl(Bucket=bucket),
    ):
        found.append(sorted(grant["Permission"] for grant in acl["Grants"]))
    return found


def errors(s3: Any, bucket: str) -> list[Any]:
    s3.put_object(Bucket=bucket, Key="k", Body=b"")
    absent = f"{bucket}-absent"
    return [
        outcome(s3.get_object, Bucket=bucket, Key="absent"),
        outcome(s3.head_object, Bucket=bucket, Key="absent"),
        outcome(s3.get_object, Bucket=absent, Key="k"),
        outcome(s3.put_object, Bucket=absent, Key="k", Body=b"x"),
        outcome(s3.list_objects_v2, Bucket=absent),
        outcome(s3.delete_bucket, Bucket=bucket),
        outcome(s3.head_bucket, Bucket=absent),
        outcome(s3.get_object, Bucket=bucket, Key="k", Range="bytes=5-"),
    ]


@pytest.mark.parametrize(
    "scene", [objects, lists, multipart, versions, conditions, documents, errors]
)
def test_boto3__through_the_gateway__sees_what_ceph_shows(
    gateway: GatewayProcess, rgw: S3Server, scene: Scene
) -> None:
    name = scene.__name__
    with closing(boto3_client(gateway)) as through, closing(rgw.client()) as straight:
        seen = []
        for client, bucket in ((through, f"{name}-through"), (straight, f"{name}-straight")):
            client.create_bucket(Bucket=bucket)
            seen.append(_without_times(scene(client, bucket)))
            purge_bucket(straight, bucket)
    assert seen[0] == seen[1]


def _without_times(found: Any) -> Any:
    """Both runs were at other times."""
    match found:
        case dict():
            return {k: _without_times(v) for k, v in found.items() if k != "LastModified"}
        case list() | tuple():
            return [_without_times(one) for one in found]
    return found
