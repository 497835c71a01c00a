"""The table of buckets' documents agrees with the rest of the gateway, and its rows with S3."""

from __future__ import annotations

import pytest
from request_heads import head

from gateway.auth.actions import ACTIONS
from gateway.errors import ClientError, S3Code
from gateway.s3.bucket_settings import SETTINGS, Setting
from gateway.s3.operations import (
    DeleteBucketSubresource,
    GetBucketSubresource,
    PutBucketSubresource,
)
from gateway.s3.route import route
from gateway.storage.port import BucketInfo
from gateway.wire.xml import parse_xml, render

ROWS = sorted(SETTINGS.items())
BUCKET = BucketInfo("shop", 0, "us-east-1")
DEFAULTS = {"accelerate", "logging", "notification", "requestPayment"}


@pytest.mark.parametrize(("name", "setting"), ROWS)
def test_row__its_requests__carry_its_actions(name: str, setting: Setting) -> None:
    assert route(head("GET", f"/shop?{name}")) == GetBucketSubresource("shop", name, setting.get)
    assert route(head("PUT", f"/shop?{name}")) == PutBucketSubresource("shop", name, setting.put)
    delete = head("DELETE", f"/shop?{name}")
    if setting.delete:
        assert route(delete) == DeleteBucketSubresource("shop", name, setting.delete)
    else:
        with pytest.raises(ClientError) as caught:
            route(delete)
        assert caught.value.code is S3Code.METHOD_NOT_ALLOWED


@pytest.mark.parametrize(("name", "setting"), ROWS)
def test_row__its_actions__can_be_named_by_a_policy(name: str, setting: Setting) -> None:
    assert {setting.get, setting.put} <= set(ACTIONS), name
    assert setting.delete in (*ACTIONS, "")


@pytest.mark.parametrize(("name", "setting"), [row for row in ROWS if row[0] in DEFAULTS])
def test_row__nothing_stored__is_a_document_that_may_be_put(name: str, setting: Setting) -> None:
    default = setting.answer_absent(BUCKET)
    assert default.tag == setting.root, name
    again = setting.read(parse_xml(render(default), 1 << 10))
    assert render(again) == render(default)


@pytest.mark.parametrize(("name", "setting"), [row for row in ROWS if row[0] not in DEFAULTS])
def test_row__nothing_stored__is_a_404(name: str, setting: Setting) -> None:
    with pytest.raises(ClientError) as caught:
        setting.answer_absent(BUCKET)
    assert caught.value.code.status == 404, name


@pytest.mark.parametrize(
    ("name", "document", "code"),
    [
        ("requestPayment", "<Payer>Requester</Payer>", S3Code.NOT_IMPLEMENTED),
        ("requestPayment", "<Payer/>", S3Code.NOT_IMPLEMENTED),
        ("accelerate", "<Status>Enabled</Status>", S3Code.NOT_IMPLEMENTED),
        ("accelerate", "<Status>Suspended</Status><Status/>", S3Code.MALFORMED_XML),
        ("notification", "<EventBridgeConfiguration/>", S3Code.NOT_IMPLEMENTED),
        ("logging", "<LoggingEnabled/>", S3Code.NOT_IMPLEMENTED),
    ],
)
def test_row__that_takes_only_what_is_so__refuses_the_rest(
    name: str, document: str, code: S3Code
) -> None:
    root = SETTINGS[name].root
    with pytest.raises(ClientError) as caught:
        SETTINGS[name].read(parse_xml(f"<{root}>{document}</{root}>".encode(), 1 << 10))
    assert caught.value.code is code
