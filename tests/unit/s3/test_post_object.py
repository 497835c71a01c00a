"""s3.post_object: fields as the PutObject they describe, and the form's own replies."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest
from request_heads import head
from s3_desk import refused

from gateway.config import HttpLimits
from gateway.errors import S3Code
from gateway.s3.post_object import Post, form_fields, posted, read_post
from gateway.s3.results import Reply, XmlReply
from gateway.wire.form_data import FormFields
from gateway.wire.grants import CannedAcl
from gateway.wire.xml import render

HEAD = head("POST", "/shop", host="gateway:9000", user_agent="browser", content_length="99")
PUT_REPLY = Reply(headers=(("etag", '"abc"'), ("x-amz-version-id", "v1")))
TAGGING = (
    "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag>"
    "<Tag><Key>c</Key><Value></Value></Tag></TagSet></Tagging>"
)


def post(filename: str = "f.txt", **fields: str) -> Post:
    named = {"key": "k"} | {name.replace("_", "-"): value for name, value in fields.items()}
    underscored = {"success_action_status", "success_action_redirect"}
    values = {
        (name.replace("-", "_") if name.replace("-", "_") in underscored else name): value
        for name, value in named.items()
    }
    made = form_fields(FormFields(values, filename), "shop")
    return read_post(made, HEAD, "shop", HttpLimits())


def test_read__fields__are_what_headers_of_a_put_say() -> None:
    put = post(
        content_type="text/plain",
        cache_control="no-cache",
        x_amz_meta_color="blü",
        x_amz_storage_class="STANDARD_IA",
        acl="public-read",
        tagging=TAGGING,
    ).put
    assert (put.bucket, put.key) == ("shop", "k")
    assert put.attributes.headers == {"content-type": "text/plain", "cache-control": "no-cache"}
    assert put.attributes.metadata["color"].encode("latin-1").decode() == "blü"
    assert put.attributes.storage_class == "STANDARD_IA"
    assert put.attributes.tags == (("a", "b"), ("c", ""))
    assert put.acl.canned is CannedAcl.PUBLIC_READ


def test_read__checksum_and_agent__are_headers_and_the_forms_own_are_not() -> None:
    made = post(x_amz_checksum_crc32="AAAAAA==", content_md5="x", submit="Upload").head
    assert made.get("x-amz-checksum-crc32") == "AAAAAA=="
    assert made.get("content-md5") == "x"
    assert (made.get("user-agent"), made.get("host")) == ("browser", "gateway:9000")
    assert made.get("content-length") is None
    assert made.get("submit") is None


@pytest.mark.parametrize("name", ["x-amz-copy-source", "if-match", "x-amz-rdma-token", "range"])
def test_read__field_that_forms_do_not_have__is_no_header(name: str) -> None:
    assert post(**{name: "x"}).head.get(name) is None


@pytest.mark.parametrize(
    ("filename", "key"),
    [("f.txt", "up/f.txt"), ("C:\\dir\\f.txt", "up/f.txt"), ("/dir/f.txt", "up/f.txt")],
)
def test_fields__filename__is_filled_in_without_its_folders(filename: str, key: str) -> None:
    assert post(filename, key="up/${filename}").put.key == key


def test_fields__proofs__are_left_word_for_word() -> None:
    fields = form_fields(FormFields({"policy": "${filename}", "acl": "${filename}"}, "f"), "b")
    assert fields == {"policy": "${filename}", "acl": "f", "bucket": "b"}


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"key": ""}, S3Code.INVALID_ARGUMENT),
        ({"key": "k" * 1025}, S3Code.KEY_TOO_LONG),
        ({"x_amz_meta_a": "a\r\nb: c"}, S3Code.INVALID_ARGUMENT),
        ({"acl": "everything"}, S3Code.INVALID_ARGUMENT),
        ({"tagging": "<Tag>"}, S3Code.MALFORMED_XML),
        ({"x_amz_server_side_encryption": "AES256"}, S3Code.NOT_IMPLEMENTED),
        ({"x_amz_meta_a": "a" * 3000}, S3Code.METADATA_TOO_LARGE),
    ],
)
def test_read__fault__is_that_of_a_put(fields: dict[str, str], code: S3Code) -> None:
    with refused(code):
        post(**fields)


@pytest.mark.parametrize(
    ("text", "status"), [("200", 200), ("204", 204), ("404", 204), ("", 204), ("x", 204)]
)
def test_posted__status__is_the_one_asked_for_if_it_may_be(text: str, status: int) -> None:
    reply = posted(PUT_REPLY, post(success_action_status=text))
    assert reply.status == status
    assert reply.get("etag") == '"abc"'
    assert reply.get("x-amz-version-id") == "v1"
    assert reply.get("location") == "http://gateway:9000/shop/k"


def test_posted__bucket_in_the_host__location_is_so_too() -> None:
    fields = form_fields(FormFields({"key": "k"}, ""), "shop")
    sent = replace(head("POST", "/", host="shop.gateway:9000"), secure=True)
    reply = posted(PUT_REPLY, read_post(fields, sent, "shop", HttpLimits()))
    assert reply.get("location") == "https://shop.gateway:9000/k"


def test_posted__201__tells_all_in_xml() -> None:
    reply = posted(PUT_REPLY, post(key="a/ü b", success_action_status="201"))
    assert reply.status == 201
    assert isinstance(reply, XmlReply)
    root = ElementTree.fromstring(render(reply.root))
    assert {child.tag: child.text for child in root} == {
        "Location": "http://gateway:9000/shop/a%2F%C3%BC%20b",
        "Bucket": "shop",
        "Key": "a/ü b",
        "ETag": '"abc"',
    }


@pytest.mark.parametrize(
    ("url", "location"),
    [
        ("http://a/b", "http://a/b?bucket=shop&key=k&etag=%22abc%22"),
        ("https://a/b?c=d", "https://a/b?c=d&bucket=shop&key=k&etag=%22abc%22"),
    ],
)
def test_posted__redirect__sends_the_browser_on(url: str, location: str) -> None:
    reply = posted(PUT_REPLY, post(success_action_redirect=url, success_action_status="201"))
    assert (reply.status, reply.get("location")) == (303, location)


@pytest.mark.parametrize("url", ["nowhere", "javascript:alert(1)", "http://a/\r\nb: c", "http://ü"])
def test_posted__redirect_that_is_no_url__is_as_if_absent(url: str) -> None:
    assert posted(PUT_REPLY, post(success_action_redirect=url)).status == 204
