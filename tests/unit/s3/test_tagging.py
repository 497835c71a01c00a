from __future__ import annotations

from xml.etree.ElementTree import Element

import pytest

from gateway.errors import ClientError, S3Code
from gateway.s3.tagging import (
    MAX_BUCKET_TAGS,
    checked_tags,
    parse_tagging,
    parse_tagging_header,
    tagging_document,
)
from gateway.wire.xml import parse_xml, render

LIMIT = 1 << 16


def tagging(*tags: tuple[str, str]) -> bytes:
    listed = "".join(f"<Tag><Key>{key}</Key><Value>{value}</Value></Tag>" for key, value in tags)
    return f"<Tagging><TagSet>{listed}</TagSet></Tagging>".encode()


def refusal(data: bytes) -> S3Code:
    with pytest.raises(ClientError) as caught:
        parse_tagging(data, LIMIT)
    return caught.value.code


def test_tags__of_any_order__are_sorted_by_key() -> None:
    assert parse_tagging_header("b=2&a=1&A=%20") == (("A", " "), ("a", "1"), ("b", "2"))
    assert parse_tagging(tagging(("b", "2"), ("a", "1")), LIMIT) == (("a", "1"), ("b", "2"))


def test_tags__key_without_a_value__has_an_empty_one() -> None:
    assert parse_tagging_header("foo=bar&bar") == (("bar", ""), ("foo", "bar"))


def test_tags__longest_and_all_that_s3_allows__are_taken() -> None:
    longest = tuple((f"{number}" + "k" * 127, "v" * 256) for number in range(10))
    assert parse_tagging(tagging(*longest), LIMIT) == longest
    assert checked_tags([("Ключ 1_.:/=+-@", "値")])
    assert checked_tags([]) == ()


@pytest.mark.parametrize(
    "pairs",
    [
        [("k", "1"), ("k", "2")],
        [("", "v")],
        [("k" * 129, "v")],
        [("k", "v" * 257)],
        [("k!", "v")],
        [("k", "v\n")],
        [("aws:mine", "v")],
        [("AWS:mine", "v")],
        [(str(number), "") for number in range(11)],
    ],
    ids=[
        "twice",
        "no key",
        "long key",
        "long value",
        "punctuation",
        "control",
        "reserved",
        "reserved in capitals",
        "eleven",
    ],
)
def test_tags__that_s3_refuses__are_invalid_tag(pairs: list[tuple[str, str]]) -> None:
    with pytest.raises(ClientError) as caught:
        checked_tags(pairs)
    assert caught.value.code is S3Code.INVALID_TAG


def test_tags__of_a_bucket__may_be_fifty() -> None:
    fifty = [(f"{number:02}", "") for number in range(50)]
    assert len(checked_tags(fifty, MAX_BUCKET_TAGS)) == 50
    with pytest.raises(ClientError):
        checked_tags([*fifty, ("50", "")], MAX_BUCKET_TAGS)


def test_tagging_header__badly_encoded__is_invalid_tag() -> None:
    with pytest.raises(ClientError) as caught:
        parse_tagging_header("a=%zz")
    assert caught.value.code is S3Code.INVALID_TAG


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"nonsense",
        b"<Other><TagSet/></Other>",
        b"<Tagging/>",
        b"<Tagging><TagSet/><TagSet/></Tagging>",
        b"<Tagging><TagSet><Tog/></TagSet></Tagging>",
        b"<Tagging><TagSet><Tag><Key>a</Key></Tag></TagSet></Tagging>",
        b"<Tagging><TagSet><Tag><Value>a</Value></Tag></TagSet></Tagging>",
        b"<Tagging><TagSet><Tag><Key>a</Key><Key>b</Key><Value/></Tag></TagSet></Tagging>",
        b"<Tagging><TagSet><Tag><Key><b/></Key><Value/></Tag></TagSet></Tagging>",
    ],
)
def test_tagging_document__not_after_the_schema__is_malformed_xml(data: bytes) -> None:
    assert refusal(data) is S3Code.MALFORMED_XML


def test_tagging_document__duplicate_key__is_invalid_tag() -> None:
    assert refusal(tagging(("k", "1"), ("k", "2"))) is S3Code.INVALID_TAG


def test_tagging_document__too_long__is_refused_before_it_is_parsed() -> None:
    assert refusal(b"<" * (LIMIT + 1)) is S3Code.MAX_MESSAGE_LENGTH_EXCEEDED


@pytest.mark.parametrize(
    "namespace", ["", ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"', ' xmlns="urn:other"']
)
def test_tagging_document__any_namespace__is_read(namespace: str) -> None:
    data = tagging(("k", "v")).replace(b"<Tagging", f"<Tagging{namespace}".encode(), 1)
    assert parse_tagging(data, LIMIT) == (("k", "v"),)


def test_tagging_document__rendered__is_read_back() -> None:
    tags = (("a", " "), ("b", ""), ("é", "x=y"))
    rendered = render(tagging_document(tags))
    assert parse_tagging(rendered, LIMIT) == tags
    root: Element = parse_xml(rendered, LIMIT)
    assert [child.tag for child in root.iter("Tag")] == ["Tag"] * 3
