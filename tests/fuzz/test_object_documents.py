"""Documents of deletes, completions and versioning: any tree gives a reply or a client error."""

from __future__ import annotations

from xml.etree.ElementTree import Element

import pytest
from bodies import BytesBody
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from request_heads import head
from s3_desk import Desk

from gateway.errors import ClientError
from gateway.storage.memory import MemoryStorage
from gateway.wire.conditional import delete_conditions, parse_delete_conditions
from gateway.wire.xml import element, render

ROOTS = ("Delete", "CompleteMultipartUpload", "VersioningConfiguration")
NAMES = (
    "Object",
    "Key",
    "VersionId",
    "ETag",
    "Size",
    "LastModifiedTime",
    "Quiet",
    "Part",
    "PartNumber",
    "ChecksumCRC32",
    "Status",
    "MfaDelete",
)
texts = st.one_of(
    st.sampled_from(["1", "0", "-1", "true", "Enabled", "null", '"*"', "a", "9" * 30]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
)
leaves = st.builds(lambda name, text: element(name, text=text), st.sampled_from(NAMES), texts)
branches = st.recursive(
    leaves,
    lambda children: st.builds(
        lambda name, inner: element(name, *inner),
        st.sampled_from(NAMES),
        st.lists(children, max_size=5),
    ),
    max_leaves=12,
)
documents = st.builds(
    lambda name, inner: element(name, *inner),
    st.sampled_from(ROOTS),
    st.lists(branches, max_size=4),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(root=documents)
async def test_document__any_tree__is_a_reply_or_a_client_error(root: Element) -> None:
    desk = Desk(MemoryStorage())
    await desk.ask("CreateBucket", Bucket="shop")
    upload = await desk.ask("CreateMultipartUpload", Bucket="shop", Key="k")
    for request in (
        head("POST", "/shop?delete"),
        head("POST", f"/shop/k?uploadId={upload['UploadId']}"),
        head("PUT", "/shop?versioning"),
    ):
        try:
            reply = await desk.perform(request, BytesBody(render(root)))
        except ClientError:
            continue
        assert reply.status == 200


@given(st.none() | st.text(max_size=40), st.none() | st.text(max_size=40))
def test_delete_conditions__any_texts__are_held_or_refused(
    time: str | None, size: str | None
) -> None:
    try:
        conditions = delete_conditions(None, time, size)
    except ClientError:
        return
    assert (conditions.if_modified_at is None) == (time is None)
    assert (conditions.if_size_bytes is None) == (size is None)


@pytest.mark.parametrize("value", ["", "*", ",", '"', "W/", 'W/"a", b , "c,d"'])
def test_delete_if_match__any_form__is_read(value: str) -> None:
    assert parse_delete_conditions(head(if_match=value)).if_match is not None
