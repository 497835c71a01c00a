from __future__ import annotations

from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import ClientError, S3Code
from gateway.wire.xml import (
    NAMESPACE,
    Children,
    document,
    element,
    parse_xml,
    render,
    url_encode,
)

LIMIT = 1 << 20
# Characters that XML 1.0 allows: what an independent parser can read back.
xml_texts = st.text(
    st.characters(exclude_categories=["Cs"]).filter(
        lambda char: char in "\t\n\r" or (char >= " " and char not in "\ufffe\uffff")
    )
)


def test_render__document__has_declaration_and_namespace() -> None:
    root = document("ListBucketResult", element("Name", text="b"), element("Prefix"))

    assert render(root) == (
        b'<?xml version="1.0" encoding="UTF-8"?>\n'
        b'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        b"<Name>b</Name><Prefix/></ListBucketResult>"
    )


@given(xml_texts, xml_texts)
def test_render__any_text__is_read_back_by_the_standard_parser(text: str, attribute: str) -> None:
    root = element("Key", text=text)
    root.set("type", attribute)

    parsed = ElementTree.fromstring(render(root))

    assert (parsed.text or "") == text
    assert parsed.get("type") == attribute


def test_render__control_characters__are_references_as_s3_writes_them() -> None:
    rendered = render(element("Key", text="a\x01\x1f\x7f\ufffeb\r\n"))

    assert rendered.endswith(b"<Key>a&#x1;&#x1f;&#x7f;&#xfffe;b&#xd;\n</Key>")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_url_encode__any_key__is_decoded_by_the_standard_library(text: str) -> None:
    encoded = url_encode(text)

    assert unquote(encoded, errors="strict") == text
    assert encoded.isascii()


def test_url_encode__slash_space_and_plus__are_distinct() -> None:
    assert url_encode("a/b c+d") == "a/b%20c%2Bd"


@pytest.mark.parametrize(
    "namespace", ["", f' xmlns="{NAMESPACE}"', ' xmlns="http://doc.s3.amazonaws.com/2006-03-01/"']
)
def test_parse_xml__any_namespace__gives_local_names(namespace: str) -> None:
    root = parse_xml(f"<Delete{namespace}><Object><Key>é</Key></Object></Delete>".encode(), LIMIT)

    assert root.tag == "Delete"
    assert root.findtext("Object/Key") == "é"


def test_parse_xml__prefixed_names__are_local_too() -> None:
    text = '<s:A xmlns:s="u" xmlns:x="v" x:type="t"><s:B/></s:A>'

    root = parse_xml(text.encode(), LIMIT)

    assert (root.tag, root.attrib, root[0].tag) == ("A", {"type": "t"}, "B")


BOMB = '<!DOCTYPE a [<!ENTITY x "xx"><!ENTITY y "&x;&x;">]><a>&y;</a>'
EXTERNAL = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/hostname">]><a>&x;</a>'


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "<a>",
        "<a></b>",
        "<a/><b/>",
        "text",
        "<a>&x;</a>",
        "<a>\x01</a>",
        '<?xml version="1.0" encoding="nonsense"?><a/>',
        BOMB,
        EXTERNAL,
        "<!DOCTYPE a><a/>",
        "<a>" * 33 + "</a>" * 33,
    ],
)
def test_parse_xml__malformed_or_dangerous__is_malformed_xml(text: str) -> None:
    with pytest.raises(ClientError) as caught:
        parse_xml(text.encode(), LIMIT)
    assert caught.value.code is S3Code.MALFORMED_XML


def test_parse_xml__32_levels__are_allowed() -> None:
    assert parse_xml(b"<a>" * 32 + b"</a>" * 32, LIMIT).tag == "a"


def test_parse_xml__not_utf8__is_malformed_xml() -> None:
    with pytest.raises(ClientError):
        parse_xml(b"<a>\xff</a>", LIMIT)


def test_parse_xml__over_the_limit__is_max_message_length_exceeded() -> None:
    with pytest.raises(ClientError) as caught:
        parse_xml(b"<a/>", 3)
    assert caught.value.code is S3Code.MAX_MESSAGE_LENGTH_EXCEEDED


def test_parse_xml__of_render__is_the_same_tree() -> None:
    root = element("A", element("B", text=" x <&> "), element("C"))

    parsed = parse_xml(render(root), LIMIT)

    assert [(node.tag, node.text) for node in parsed.iter()] == [
        ("A", None),
        ("B", " x <&> "),
        ("C", None),
    ]


# Children: a document held to its schema


def children(text: bytes, **allowed: tuple[str, ...]) -> Children:
    return Children(parse_xml(text, LIMIT), **allowed)


def test_children__allowed__are_found_by_name() -> None:
    found = children(b"<R> <A>1</A><B/><A>2</A> </R>", once=("B", "C", "D"), several=("A",))
    assert found.texts("A") == ["1", "2"]
    assert found.text("B") == ""
    assert found.text("C") is None
    assert found.need("B").tag == "B"
    assert found.one("D") is None


@pytest.mark.parametrize(
    "text", [b"<R><X/></R>", b"<R><A/><A/></R>"], ids=["unknown", "second of once"]
)
def test_children__not_in_the_schema__is_malformed_xml(text: bytes) -> None:
    with pytest.raises(ClientError) as caught:
        children(text, once=("A",))
    assert caught.value.code is S3Code.MALFORMED_XML


def test_children__missing_or_with_children_of_its_own__is_malformed_xml() -> None:
    found = children(b"<R><A><B/></A></R>", once=("A", "C"))
    for ask in (found.need, found.need_text):
        with pytest.raises(ClientError, match="lacks a C"):
            ask("C")
    with pytest.raises(ClientError, match="text only"):
        found.text("A")
