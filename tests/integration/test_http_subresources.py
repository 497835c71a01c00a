"""Tags, lists, locks and cross-origin requests through boto3 and over a real socket."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection, HTTPResponse
from typing import Any

import pytest
from botocore.exceptions import ClientError
from gateway_process import GatewayProcess

RULE = {
    "AllowedMethods": ["GET"],
    "AllowedOrigins": ["https://*.example"],
    "AllowedHeaders": ["authorization"],
    "ExposeHeaders": ["ETag"],
}


def ask(served: GatewayProcess, method: str, target: str, **headers: str) -> HTTPResponse:
    """One unsigned request, as a browser sends it; the body is read."""
    connection = HTTPConnection(*served.address, timeout=30)
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, target, headers=fields)
    response = connection.getresponse()
    response.read()
    connection.close()
    return response


def test_cors__browser__is_let_in_by_preflight_and_may_read_the_reply(
    served: GatewayProcess, s3: Any, bucket: str
) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"abc", ACL="public-read")
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": [RULE]})
    origin = "https://page.example"
    preflight = ask(
        served,
        "OPTIONS",
        f"/{bucket}/k",
        Origin=origin,
        Access_Control_Request_Method="GET",
        Access_Control_Request_Headers="Authorization",
    )
    assert preflight.status == 200
    assert preflight.getheader("Access-Control-Allow-Headers") == "authorization"
    for target, status in (("k", 200), ("none", 403)):
        reply = ask(served, "GET", f"/{bucket}/{target}", Origin=origin)
        assert reply.status == status
        assert reply.getheader("Access-Control-Allow-Origin") == origin
        assert reply.getheader("Access-Control-Expose-Headers") == "ETag"
    stranger = ask(served, "GET", f"/{bucket}/k", Origin="https://other")
    assert stranger.status == 200
    assert stranger.getheader("Access-Control-Allow-Origin") is None
    assert (stranger.getheader("Vary") or "").startswith("Origin")


def test_object__tagged_granted_and_locked__says_so_and_stays(s3: Any) -> None:
    bucket = "t-sub-resources-locked"
    s3.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=True)
    until = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
    made = s3.put_object(
        Bucket=bucket,
        Key="k",
        Body=b"abc",
        Tagging="b=2&a=1",
        ACL="public-read",
        ObjectLockMode="GOVERNANCE",
        ObjectLockRetainUntilDate=until,
    )
    version = {"Bucket": bucket, "Key": "k", "VersionId": made["VersionId"]}
    head = s3.head_object(**version)
    assert (head["TagCount"], head["ObjectLockRetainUntilDate"]) == (2, until)
    assert [one["Key"] for one in s3.get_object_tagging(**version)["TagSet"]] == ["a", "b"]
    assert len(s3.get_object_acl(**version)["Grants"]) == 2
    with pytest.raises(ClientError) as refused:
        s3.delete_object(**version)
    assert refused.value.response["Error"]["Code"] == "AccessDenied"
    s3.delete_object(**version, BypassGovernanceRetention=True)
    s3.delete_bucket(Bucket=bucket)
