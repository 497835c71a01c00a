from __future__ import annotations

import pytest

from gateway.errors import ClientError, S3Code
from gateway.s3.public_access import (
    SETTING,
    PublicAccess,
    public_access,
    read_public_access_block,
)
from gateway.storage.port import BucketInfo
from gateway.wire.xml import parse_xml, render

ELEMENTS = ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")


def configuration(**switches: str) -> bytes:
    listed = "".join(f"<{name}>{text}</{name}>" for name, text in switches.items())
    return f"<PublicAccessBlockConfiguration>{listed}</PublicAccessBlockConfiguration>".encode()


def stored(data: bytes) -> PublicAccess:
    text = render(read_public_access_block(parse_xml(data, 1 << 10))).decode()
    return public_access(BucketInfo("shop", 0, "us-east-1", settings={SETTING: text}))


def test_public_access__never_set__holds_nothing_back() -> None:
    assert public_access(BucketInfo("shop", 0, "us-east-1")) == PublicAccess()


@pytest.mark.parametrize("position", range(4))
@pytest.mark.parametrize("word", ["true", "TRUE", "1"])
def test_public_access__one_switch__is_that_one(position: int, word: str) -> None:
    switches = [at == position for at in range(4)]
    assert stored(configuration(**{ELEMENTS[position]: word})) == PublicAccess(*switches)


@pytest.mark.parametrize("word", ["yes", "", " true"])
def test_public_access__no_boolean__is_malformed_xml(word: str) -> None:
    with pytest.raises(ClientError) as caught:
        stored(configuration(BlockPublicAcls=word))
    assert caught.value.code is S3Code.MALFORMED_XML
