"""URLs and headers become operations: botocore's requests, captured ones, and hand-made heads."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from s3_desk import refused, request

from gateway.errors import S3Code
from gateway.s3 import operations as ops
from gateway.s3.ownership import ObjectOwnership
from gateway.s3.route import route
from gateway.storage.port import Retention, RetentionMode
from gateway.wire.byte_range import RangeSpec
from gateway.wire.checksums import Algorithm, ChecksumType
from gateway.wire.conditional import Conditions
from gateway.wire.grants import AclHeaders, CannedAcl, NamedGrant, Permission
from gateway.wire.request import RequestHead

VECTORS = Path(__file__).parents[2] / "vectors/real_clients.jsonl"


def head(method: str, target: str, **headers: str) -> RequestHead:
    path, _, query = target.partition("?")
    fields = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return RequestHead(method, path, query, (("host", "127.0.0.1:9000"), *fields))


def routed(operation: str, **arguments: Any) -> ops.Operation:
    made, _ = request(operation, **arguments)
    return route(replace(made, raw_path=made.raw_path.partition("?")[0]))


# Addresses


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/shop/a//b", "a//b"),
        ("/shop//a", "/a"),
        ("/shop/a/../b", "a/../b"),
        ("/shop/./..", "./.."),
        ("/shop/dir/", "dir/"),
        ("/shop/a%2Fb", "a/b"),
        ("/shop/a%252Fb", "a%2Fb"),
        ("/shop/a+b%20c%2B", "a+b c+"),
        ("/shop/%3Fx", "?x"),
        ("/shop/b%25az", "b%az"),
        ("/shop/%C3%A9", "é"),
        ("/shop/%01", "\x01"),
    ],
)
def test_route__raw_path__decodes_once_and_never_normalises(path: str, key: str) -> None:
    operation = route(head("GET", path))
    assert isinstance(operation, ops.GetObject)
    assert (operation.bucket, operation.key) == ("shop", key)


@pytest.mark.parametrize("path", ["/shop", "/shop/"])
def test_route__bucket_path__addresses_the_bucket(path: str) -> None:
    assert route(head("HEAD", path)) == ops.HeadBucket("shop")


@pytest.mark.parametrize("host", ["shop.s3.test", "shop.S3.test:9000"])
def test_route__virtual_host__whole_path_is_the_key(host: str) -> None:
    made = RequestHead("GET", "//b/x", "", (("host", host),))
    operation = route(made, domains=("other.test", "s3.test"))
    assert isinstance(operation, ops.GetObject)
    assert (operation.bucket, operation.key) == ("shop", "/b/x")


def test_route__virtual_host_without_a_key__addresses_the_bucket() -> None:
    made = RequestHead("PUT", "/", "", (("host", "my.shop.s3.test"),))
    assert route(made, domains=("s3.test",)) == ops.CreateBucket("my.shop")


def test_route__the_domain_itself__is_path_style() -> None:
    made = RequestHead("GET", "/shop/x", "", (("host", "s3.test"),))
    operation = route(made, domains=("s3.test",))
    assert isinstance(operation, ops.GetObject)
    assert operation.bucket == "shop"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("//b/x", S3Code.INVALID_BUCKET_NAME),
        ("/Shop/x", S3Code.INVALID_BUCKET_NAME),
        ("/%2E%2E/x", S3Code.INVALID_BUCKET_NAME),
        ("/shop/%zz", S3Code.INVALID_URI),
        ("/shop/%ff", S3Code.INVALID_URI),
        ("/shop/x?prefix=%ff", S3Code.INVALID_URI),
        ("/shop/" + "k" * 1025, S3Code.KEY_TOO_LONG),
        ("/shop/" + "%C3%A9" * 513, S3Code.KEY_TOO_LONG),
    ],
)
def test_route__impossible_address__is_refused(path: str, code: S3Code) -> None:
    with refused(code):
        route(head("GET", path))


def test_route__key_of_1024_bytes__is_taken() -> None:
    operation = route(head("GET", "/shop/" + "%C3%A9" * 512))
    assert isinstance(operation, ops.GetObject)


# Which operation


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("ListBuckets", {}, ops.ListBuckets),
        ("CreateBucket", {}, ops.CreateBucket),
        ("HeadBucket", {}, ops.HeadBucket),
        ("DeleteBucket", {}, ops.DeleteBucket),
        ("GetBucketLocation", {}, ops.GetBucketLocation),
        ("GetBucketVersioning", {}, ops.GetBucketVersioning),
        ("PutBucketVersioning", {"VersioningConfiguration": {}}, ops.PutBucketVersioning),
        ("GetBucketPolicy", {}, ops.GetBucketPolicy),
        ("PutBucketPolicy", {"Policy": "{}"}, ops.PutBucketPolicy),
        ("DeleteBucketPolicy", {}, ops.DeleteBucketPolicy),
        ("GetBucketPolicyStatus", {}, ops.GetBucketPolicyStatus),
        ("GetBucketAcl", {}, ops.GetBucketAcl),
        ("PutBucketAcl", {"ACL": "private"}, ops.PutBucketAcl),
        ("GetPublicAccessBlock", {}, ops.GetBucketSubresource),
        ("PutBucketCors", {"CORSConfiguration": {"CORSRules": []}}, ops.PutBucketSubresource),
        ("DeleteBucketTagging", {}, ops.DeleteBucketSubresource),
        ("GetObjectLockConfiguration", {}, ops.GetBucketSubresource),
        ("ListObjects", {}, ops.ListObjects),
        ("ListObjectsV2", {}, ops.ListObjectsV2),
        ("ListObjectVersions", {}, ops.ListObjectVersions),
        ("ListMultipartUploads", {}, ops.ListMultipartUploads),
        ("DeleteObjects", {"Delete": {"Objects": []}}, ops.DeleteObjects),
        ("GetObject", {"Key": "k"}, ops.GetObject),
        ("HeadObject", {"Key": "k"}, ops.HeadObject),
        (
            "GetObjectAttributes",
            {"Key": "k", "ObjectAttributes": ["ETag"]},
            ops.GetObjectAttributes,
        ),
        ("PutObject", {"Key": "k"}, ops.PutObject),
        ("DeleteObject", {"Key": "k"}, ops.DeleteObject),
        ("CopyObject", {"Key": "k", "CopySource": "shop/s"}, ops.CopyObject),
        ("GetObjectAcl", {"Key": "k"}, ops.GetObjectAcl),
        ("PutObjectAcl", {"Key": "k", "ACL": "private"}, ops.PutObjectAcl),
        ("GetObjectTagging", {"Key": "k"}, ops.GetObjectTagging),
        ("PutObjectTagging", {"Key": "k", "Tagging": {"TagSet": []}}, ops.PutObjectTagging),
        ("DeleteObjectTagging", {"Key": "k"}, ops.DeleteObjectTagging),
        ("GetObjectRetention", {"Key": "k"}, ops.GetObjectRetention),
        ("PutObjectRetention", {"Key": "k", "Retention": {}}, ops.PutObjectRetention),
        ("GetObjectLegalHold", {"Key": "k"}, ops.GetObjectLegalHold),
        ("PutObjectLegalHold", {"Key": "k", "LegalHold": {}}, ops.PutObjectLegalHold),
        ("CreateMultipartUpload", {"Key": "k"}, ops.CreateMultipartUpload),
        ("UploadPart", {"Key": "k", "UploadId": "u", "PartNumber": 1}, ops.UploadPart),
        (
            "UploadPartCopy",
            {"Key": "k", "UploadId": "u", "PartNumber": 1, "CopySource": "shop/s"},
            ops.UploadPartCopy,
        ),
        ("ListParts", {"Key": "k", "UploadId": "u"}, ops.ListParts),
        ("CompleteMultipartUpload", {"Key": "k", "UploadId": "u"}, ops.CompleteMultipartUpload),
        ("AbortMultipartUpload", {"Key": "k", "UploadId": "u"}, ops.AbortMultipartUpload),
    ],
)
def test_route__request_of_botocore__is_that_operation(
    name: str, arguments: dict[str, Any], expected: type[ops.Operation]
) -> None:
    bucket = {} if name == "ListBuckets" else {"Bucket": "shop"}
    assert type(routed(name, **bucket, **arguments)) is expected


def test_route__every_captured_request__is_an_operation() -> None:
    _, *captured = map(json.loads, VECTORS.read_text().splitlines())
    for one in captured:
        path, _, query = one["raw_path"].partition("?")
        fields = tuple((name, value) for name, values in one["headers"].items() for value in values)
        made = RequestHead(one["method"], path, query, fields)
        if (
            path == "/%24extremelyunlikelytoexist%24"
        ):  # pyarrow asks for any error, to see who we are
            with refused(S3Code.INVALID_BUCKET_NAME):
                route(made)
        else:
            assert route(made)


@pytest.mark.parametrize("extra", ["x-id=GetObject", "X-Amz-Signature=0", "mine=1", "Expires=9"])
def test_route__parameter_without_meaning_here__is_ignored(extra: str) -> None:
    assert route(head("GET", f"/shop/k?{extra}")) == route(head("GET", "/shop/k"))


@pytest.mark.parametrize(
    ("method", "target", "name"),
    [
        ("PUT", "/shop/k?torrent=", "torrent"),
        ("PUT", "/shop?inventory&id=a", "inventory"),
        ("GET", "/shop?metrics&id=a", "metrics"),
        ("POST", "/shop/k?select&select-type=2", "select"),
        ("PUT", "/shop/k?fromTheFuture", "fromTheFuture"),
    ],
)
def test_route__subresource_not_served__is_501_that_names_it(
    method: str, target: str, name: str
) -> None:
    with refused(S3Code.NOT_IMPLEMENTED) as caught:
        route(head(method, target))
    assert f"?{name} " in caught.value.message


@pytest.mark.parametrize(
    ("method", "target", "resource"),
    [
        ("PATCH", "/shop/k", "OBJECT"),
        ("POST", "/shop/k", "OBJECT"),
        ("DELETE", "/", "SERVICE"),
        ("HEAD", "/shop/k?uploadId=u", "UPLOAD"),
        ("DELETE", "/shop/k?legal-hold", "OBJECT"),
        ("DELETE", "/shop/k?acl", "OBJECT"),
        ("DELETE", "/shop?object-lock", "BUCKET"),
        ("PUT", "/shop?policyStatus", "BUCKET"),
        ("POST", "/shop?tagging", "BUCKET"),
    ],
)
def test_route__wrong_method__is_405(method: str, target: str, resource: str) -> None:
    with refused(S3Code.METHOD_NOT_ALLOWED) as caught:
        route(head(method, target))
    assert caught.value.details == {"Method": method, "ResourceType": resource}


def test_route__two_subresources__is_refused() -> None:
    with refused(S3Code.INVALID_ARGUMENT):
        route(head("GET", "/shop?acl&policy"))


@pytest.mark.parametrize("query", ["partNumber=1", "uploadId=u"])
def test_route__half_of_a_part_address__never_writes_the_whole_object(query: str) -> None:
    with refused(S3Code.INVALID_ARGUMENT):
        route(head("PUT", f"/shop/k?{query}"))


# Parameters


@pytest.mark.parametrize("value", ["blah", "-1", "1.5", "+1", "\u0661"])
def test_route__max_keys_not_a_number__is_invalid_argument(value: str) -> None:
    with refused(S3Code.INVALID_ARGUMENT) as caught:
        routed("ListObjects", Bucket="shop", MaxKeys=value)
    assert caught.value.details["ArgumentName"] == "max-keys"


@pytest.mark.parametrize(
    ("asked", "given"), [("0", 0), ("", 1000), ("1000", 1000), ("1001", 1000), ("9" * 4400, 1000)]
)
def test_route__max_keys__is_clamped_to_a_thousand(asked: str, given: int) -> None:
    operation = route(head("GET", f"/shop?max-keys={asked}"))
    assert isinstance(operation, ops.ListObjects)
    assert operation.max_keys == given


def test_route__list_parameters__are_decoded() -> None:
    operation = routed(
        "ListObjectsV2",
        Bucket="shop",
        Prefix="é +/",
        Delimiter="//",
        StartAfter="a&b",
        ContinuationToken="",
        FetchOwner=True,
        EncodingType="url",
        MaxKeys=7,
    )
    assert operation == ops.ListObjectsV2(
        "shop", "é +/", "//", "a&b", "", fetch_owner=True, max_keys=7, encode=True
    )


@pytest.mark.parametrize(
    "query", ["list-type=1", "encoding-type=xml", "versions&version-id-marker=null"]
)
def test_route__list_parameter_without_sense__is_invalid_argument(query: str) -> None:
    with refused(S3Code.INVALID_ARGUMENT):
        route(head("GET", f"/shop?{query}"))


def test_route__get_with_everything__is_parsed_whole() -> None:
    operation = routed(
        "GetObject",
        Bucket="shop",
        Key="k",
        VersionId="null",
        Range="bytes=2-5",
        IfMatch='"abc"',
        IfNoneMatch="def",
        ChecksumMode="ENABLED",
        ResponseContentType="text/é",
    )
    assert operation == ops.GetObject(
        "shop",
        "k",
        version_id="null",
        byte_range=RangeSpec(2, 5, "bytes=2-5"),
        conditions=Conditions(if_match=("abc",), if_none_match=("def",)),
        overrides={"content-type": "text/é".encode().decode("latin-1")},
        checksum_mode=True,
    )


def test_route__line_break_in_an_override__is_refused() -> None:
    with refused(S3Code.INVALID_ARGUMENT):
        route(head("GET", "/shop/k?response-content-type=a%0d%0aset-cookie:%20b"))


def test_route__range_beside_part_number__is_invalid_request() -> None:
    with refused(S3Code.INVALID_REQUEST):
        routed("GetObject", Bucket="shop", Key="k", Range="bytes=0-1", PartNumber=1)


@pytest.mark.parametrize("number", ["0", "10001", "-1", "x", ""])
def test_route__part_number_out_of_range__is_invalid_argument(number: str) -> None:
    with refused(S3Code.INVALID_ARGUMENT):
        route(head("PUT", f"/shop/k?uploadId=u&partNumber={number}"))


def test_route__empty_version_id__is_invalid_argument() -> None:
    with refused(S3Code.INVALID_ARGUMENT):
        route(head("GET", "/shop/k?versionId="))


# Attributes


def put(**headers: str) -> ops.PutObject:
    operation = route(head("PUT", "/shop/k", **headers))
    assert isinstance(operation, ops.PutObject)
    return operation


def test_route__attributes__are_kept_word_for_word() -> None:
    attributes = put(
        content_type="text/plain; a=b",
        cache_control="no-cache",
        expires="never",
        x_amz_meta_a="one  two",
        x_amz_meta_b="\u00c3\u00a9",
        x_amz_tagging="k=v%20w&e=&%C3%A9=+",
        x_amz_storage_class="STANDARD_IA",
    ).attributes
    assert attributes.headers == {
        "content-type": "text/plain; a=b",
        "cache-control": "no-cache",
        "expires": "never",
    }
    assert attributes.metadata == {"a": "one  two", "b": "\u00c3\u00a9"}
    assert attributes.tags == (("e", ""), ("k", "v w"), ("é", " "))
    assert attributes.storage_class == "STANDARD_IA"


def test_route__repeated_metadata__is_joined() -> None:
    made = RequestHead("PUT", "/shop/k", "", (("x-amz-meta-a", "1"), ("x-amz-meta-a", "2")))
    operation = route(made)
    assert isinstance(operation, ops.PutObject)
    assert operation.attributes.metadata == {"a": "1,2"}


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("aws-chunked", None),
        ("aws-chunked,gzip", "gzip"),
        ("gzip, AWS-Chunked", "gzip"),
        ("gzip,br", "gzip,br"),
    ],
)
def test_route__content_encoding__loses_aws_chunked_only(sent: str, kept: str | None) -> None:
    assert put(content_encoding=sent).attributes.headers.get("content-encoding") == kept


def test_route__metadata_of_two_kib__is_taken_and_one_byte_more_is_not() -> None:
    assert put(x_amz_meta_key="v" * 2045)
    with refused(S3Code.METADATA_TOO_LARGE) as caught:
        put(x_amz_meta_key="v" * 2046)
    assert caught.value.details == {"Size": "2049", "MaxSizeAllowed": "2048"}


@pytest.mark.parametrize(
    "tagging",
    ["a=1&a=2", "=v", "k" * 129 + "=v", "k=" + "v" * 257, "%ff=v", "&".join(map(str, range(11)))],
)
def test_route__bad_tags__are_refused(tagging: str) -> None:
    with refused(S3Code.INVALID_TAG):
        put(x_amz_tagging=tagging)


def test_route__unknown_storage_class__is_refused() -> None:
    with refused(S3Code.INVALID_STORAGE_CLASS):
        put(x_amz_storage_class="PLATINUM")


@pytest.mark.parametrize(
    "headers",
    [
        {"x_amz_server_side_encryption": "AES256"},
        {"x_amz_server_side_encryption_customer_algorithm": "AES256"},
        {"x_amz_write_offset_bytes": "5"},
    ],
)
def test_route__header_whose_promise_would_be_broken__is_501(headers: dict[str, str]) -> None:
    with refused(S3Code.NOT_IMPLEMENTED) as caught:
        put(**headers)
    assert next(iter(headers)).replace("_", "-") in caught.value.message


def test_route__locks__become_attributes() -> None:
    attributes = put(
        x_amz_object_lock_mode="COMPLIANCE",
        x_amz_object_lock_retain_until_date="2030-01-02T03:04:05Z",
        x_amz_object_lock_legal_hold="ON",
    ).attributes
    assert attributes.retention == Retention(RetentionMode.COMPLIANCE, 1_893_553_445 * 10**9)
    assert attributes.legal_hold


@pytest.mark.parametrize(
    "headers",
    [
        {"x_amz_acl": "public"},
        {"x_amz_acl": "aws-exec-read"},
        {"x_amz_grant_read": "name=x"},
        {"x_amz_object_lock_mode": "COMPLIANCE"},
        {"x_amz_object_lock_legal_hold": "on"},
        {"x_amz_object_lock_mode": "X", "x_amz_object_lock_retain_until_date": "2030-01-01"},
        {"x_amz_object_lock_mode": "GOVERNANCE", "x_amz_object_lock_retain_until_date": "soon"},
    ],
)
def test_route__access_or_lock_without_sense__is_invalid_argument(headers: dict[str, str]) -> None:
    with refused(S3Code.INVALID_ARGUMENT):
        put(**headers)


def test_route__canned_acl_beside_grants__is_invalid_request() -> None:
    with refused(S3Code.INVALID_REQUEST):
        put(x_amz_acl="private", x_amz_grant_read="id=a")


@pytest.mark.parametrize("name", ["PutObject", "CopyObject", "CreateMultipartUpload"])
def test_route__acl_of_a_new_object__is_carried(name: str) -> None:
    source = {"CopySource": "shop/s"} if name == "CopyObject" else {}
    operation = routed(name, Bucket="shop", Key="k", ACL="public-read", **source)
    assert operation.acl == AclHeaders(CannedAcl.PUBLIC_READ)  # type: ignore[attr-defined]


def test_route__create_bucket__carries_acl_lock_and_ownership() -> None:
    operation = routed(
        "CreateBucket",
        Bucket="shop",
        GrantRead='id="a", uri=b',
        ObjectLockEnabledForBucket=True,
        ObjectOwnership="BucketOwnerEnforced",
    )
    grants = (NamedGrant("id", "a", Permission.READ), NamedGrant("uri", "b", Permission.READ))
    assert operation == ops.CreateBucket(
        "shop",
        AclHeaders(grants=grants),
        object_lock=True,
        ownership=ObjectOwnership.BUCKET_OWNER_ENFORCED,
    )
    with refused(S3Code.INVALID_ARGUMENT):
        routed("CreateBucket", Bucket="shop", ObjectOwnership="Mine")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("DeleteObject", {"Key": "k"}),
        ("DeleteObjects", {"Delete": {"Objects": []}}),
        ("PutObjectRetention", {"Key": "k", "Retention": {}}),
    ],
)
def test_route__bypass_of_governance__is_carried(name: str, arguments: dict[str, Any]) -> None:
    asked = routed(name, Bucket="shop", BypassGovernanceRetention=True, **arguments)
    assert asked.bypass_governance  # type: ignore[attr-defined]
    assert not routed(name, Bucket="shop", **arguments).bypass_governance  # type: ignore[attr-defined]


# Write conditions, copies, multipart


def test_route__if_none_match_star_on_put__is_a_condition() -> None:
    assert put(if_none_match="*").conditions == Conditions(if_none_match=("*",))


def test_route__if_none_match_of_an_etag_on_put__is_a_condition_too() -> None:
    assert put(if_none_match='"abc"').conditions == Conditions(if_none_match=("abc",))


def test_route__date_condition_on_put__is_no_condition() -> None:
    assert put(if_modified_since="Sun, 29 Nov 2026 15:05:35 GMT").conditions == Conditions()


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("shop/key", ("shop", "key", None)),
        ("/shop/a/b", ("shop", "a/b", None)),
        ("shop/a%2Fb%3Fc", ("shop", "a/b?c", None)),
        ("shop//a", ("shop", "/a", None)),
        ("shop/a%3FversionId%3Dx", ("shop", "a?versionId=x", None)),
        ("shop/a?versionId=null", ("shop", "a", "null")),
        ("shop/a+b%2Bc", ("shop", "a b+c", None)),
        ("shop%2Fa%2Fb%2Bc", ("shop", "a/b+c", None)),
        ("%2Fshop%2Fa?versionId=null", ("shop", "a", "null")),
        ("shop/\u00c3\u00a9", ("shop", "é", None)),
        ("shop/%C3%A9", ("shop", "é", None)),
    ],
)
def test_route__copy_source__names_bucket_key_and_version(
    text: str, source: tuple[str, str, str | None]
) -> None:
    operation = route(head("PUT", "/shop/k", x_amz_copy_source=text))
    assert isinstance(operation, ops.CopyObject)
    found = operation.source
    assert (found.bucket, found.key, found.version_id) == source


@pytest.mark.parametrize("text", ["", "shop", "/shop/", "shop%2F", "%2Fshop"])
def test_route__copy_source_without_bucket_and_key__is_invalid_argument(text: str) -> None:
    with refused(S3Code.INVALID_ARGUMENT):
        route(head("PUT", "/shop/k", x_amz_copy_source=text))


def test_route__copy_of_botocore__carries_directives_and_source_conditions() -> None:
    operation = routed(
        "CopyObject",
        Bucket="shop",
        Key="k",
        CopySource="shop/s",
        CopySourceIfMatch='"abc"',
        MetadataDirective="REPLACE",
        TaggingDirective="REPLACE",
        ChecksumAlgorithm="SHA256",
        Metadata={"a": "b"},
    )
    assert isinstance(operation, ops.CopyObject)
    assert operation.source.conditions == Conditions(if_match=("abc",))
    assert (operation.replace_metadata, operation.replace_tags) == (True, True)
    assert operation.checksum_algorithm is Algorithm.SHA256
    assert operation.attributes.metadata == {"a": "b"}


def test_route__unknown_directive__is_invalid_argument() -> None:
    with refused(S3Code.INVALID_ARGUMENT):
        routed("CopyObject", Bucket="shop", Key="k", CopySource="shop/s", MetadataDirective="MOVE")


@pytest.mark.parametrize(
    ("algorithm", "kind", "expected"),
    [
        ("CRC64NVME", None, ChecksumType.FULL_OBJECT),
        ("CRC32", None, ChecksumType.COMPOSITE),
        ("SHA1", None, ChecksumType.COMPOSITE),
        ("CRC32", "FULL_OBJECT", ChecksumType.FULL_OBJECT),
    ],
)
def test_route__checksum_of_an_upload__has_a_type(
    algorithm: str, kind: str | None, expected: ChecksumType
) -> None:
    chosen = {"ChecksumType": kind} if kind else {}
    operation = routed(
        "CreateMultipartUpload", Bucket="shop", Key="k", ChecksumAlgorithm=algorithm, **chosen
    )
    assert isinstance(operation, ops.CreateMultipartUpload)
    assert operation.checksum_type is expected


@pytest.mark.parametrize(
    ("algorithm", "kind"),
    [
        ("CRC64NVME", "COMPOSITE"),
        ("SHA256", "FULL_OBJECT"),
        ("CRC32", "SOME"),
        ("MD4", "COMPOSITE"),
    ],
)
def test_route__impossible_checksum_of_an_upload__is_invalid_request(
    algorithm: str, kind: str
) -> None:
    with refused(S3Code.INVALID_REQUEST):
        routed(
            "CreateMultipartUpload",
            Bucket="shop",
            Key="k",
            ChecksumAlgorithm=algorithm,
            ChecksumType=kind,
        )


def test_route__complete__takes_what_is_claimed_of_the_object() -> None:
    operation = routed(
        "CompleteMultipartUpload",
        Bucket="shop",
        Key="k",
        UploadId="u",
        ChecksumCRC32="AAAAAA==-2",
        MpuObjectSize=12,
        IfNoneMatch="*",
    )
    assert operation == ops.CompleteMultipartUpload(
        "shop",
        "k",
        "u",
        conditions=Conditions(if_none_match=("*",)),
        checksums={Algorithm.CRC32: "AAAAAA==-2"},
        object_size_bytes=12,
    )


def test_route__object_size_that_is_none__is_invalid_request() -> None:
    with refused(S3Code.INVALID_REQUEST):
        route(head("POST", "/shop/k?uploadId=u", x_amz_mp_object_size="many"))


@pytest.mark.parametrize("text", ["bytes=0-", "bytes=-5", "0-5", "bytes=5-2"])
def test_route__copy_range_that_is_not_closed__is_invalid_argument(text: str) -> None:
    with refused(S3Code.INVALID_ARGUMENT):
        route(
            head(
                "PUT",
                "/shop/k?uploadId=u&partNumber=1",
                x_amz_copy_source="shop/s",
                x_amz_copy_source_range=text,
            )
        )
