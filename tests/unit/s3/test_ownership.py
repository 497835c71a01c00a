from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.errors import ClientError, S3Code
from gateway.s3.ownership import (
    SETTING,
    ObjectOwnership,
    admit_ownership,
    object_ownership,
    ownership_controls,
    read_ownership_controls,
)
from gateway.storage.port import BucketInfo
from gateway.wire.grants import Grant, Group, Permission
from gateway.wire.xml import parse_xml, render

BUCKET = BucketInfo("shop", 0, "us-east-1")
OPEN = (Grant(Group.ALL_USERS, Permission.READ),)


def with_ownership(ownership: ObjectOwnership) -> BucketInfo:
    text = render(ownership_controls(ownership)).decode()
    return replace(BUCKET, settings={SETTING: text})


def test_object_ownership__never_set__is_the_writers() -> None:
    assert object_ownership(BUCKET) is ObjectOwnership.OBJECT_WRITER


@pytest.mark.parametrize("ownership", ObjectOwnership)
def test_object_ownership__stored__is_read_back(ownership: ObjectOwnership) -> None:
    assert object_ownership(with_ownership(ownership)) is ownership
    sent = parse_xml(render(ownership_controls(ownership)), 1 << 10)
    assert render(read_ownership_controls(sent)) == render(ownership_controls(ownership))


@pytest.mark.parametrize(
    "rules",
    [
        "",
        "<Rule/>",
        "<Rule><ObjectOwnership>Mine</ObjectOwnership></Rule>",
        "<Rule><ObjectOwnership>ObjectWriter</ObjectOwnership></Rule>" * 2,
    ],
)
def test_ownership_controls__without_sense__are_malformed_xml(rules: str) -> None:
    document = f"<OwnershipControls>{rules}</OwnershipControls>".encode()
    with pytest.raises(ClientError) as caught:
        read_ownership_controls(parse_xml(document, 1 << 10))
    assert caught.value.code is S3Code.MALFORMED_XML


def test_admit_ownership__enforced_over_a_list__is_refused() -> None:
    enforced = with_ownership(ObjectOwnership.BUCKET_OWNER_ENFORCED)
    assert admit_ownership(enforced) == enforced
    with pytest.raises(ClientError) as caught:
        admit_ownership(replace(enforced, grants=OPEN))
    assert caught.value.code is S3Code.INVALID_BUCKET_ACL_WITH_OBJECT_OWNERSHIP
    preferred = replace(with_ownership(ObjectOwnership.BUCKET_OWNER_PREFERRED), grants=OPEN)
    assert admit_ownership(preferred) == preferred
