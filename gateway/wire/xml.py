"""XML in and out: S3's small documents, parsed without surprises and written byte-exactly.

Parsing refuses DTDs altogether, so no entity can expand and nothing outside is fetched. Writing
escapes what XML 1.0 forbids as character references, as S3 does: a key may hold any character, and
a listing must not break over it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from urllib.parse import quote
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from gateway.errors import ClientError, S3Code

NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
DECLARATION = b'<?xml version="1.0" encoding="UTF-8"?>\n'
MAX_DEPTH = 32  # S3's deepest request has 6 levels

# Markup, what a parser would normalise (CR, and in attributes TAB and LF), and what is not an
# XML 1.0 character (section 2.2). Surrogates can't occur: text is valid UTF-8 at the edge.
_NO_CHAR = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_TEXT_ESCAPES = re.compile("[&<>\r\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff]")
_ATTRIBUTE_ESCAPES = re.compile('[&<>"\x00-\x1f\x7f-\x9f\ufffe\uffff]')
_NAMED = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}


def element(name: str, *children: Element, text: str | None = None) -> Element:
    """An element with that text, or with those children."""
    made = Element(name)
    made.text = text
    made.extend(children)
    return made


def document(name: str, *children: Element) -> Element:
    """The root of a reply in S3's namespace."""
    root = element(name, *children)
    root.set("xmlns", NAMESPACE)
    return root


def render(root: Element) -> bytes:
    """The whole document in UTF-8, with its declaration, without white space between elements."""
    return DECLARATION + "".join(_pieces(root)).encode("utf-8")


def holds(text: str) -> bool:
    """Whether XML 1.0 can carry this text (its section 2.2, Char)."""
    return _NO_CHAR.search(text) is None


def url_encode(text: str) -> str:
    """A key as encoding-type=url shows it: UTF-8, percent-encoded, "/" kept."""
    return quote(text, safe="/")


def parse_xml(data: bytes, limit_bytes: int) -> Element:
    """Parse a request's document; names come without their namespace.

    Clients send S3's namespace, an older one, or none, and S3 takes all of them.

    Args:
        data: the body.
        limit_bytes: the longest body that is looked at.

    Raises:
        ClientError: MalformedXML: not well-formed, a DTD, nested too deep;
            MaxMessageLengthExceeded: over `limit_bytes`.
    """
    if len(data) > limit_bytes:
        raise ClientError(
            S3Code.MAX_MESSAGE_LENGTH_EXCEEDED,
            details={"MaxMessageLengthBytes": str(limit_bytes)},
        )
    target = _Target()
    parser = expat.ParserCreate(namespace_separator="}")
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = target.doctype
    parser.StartElementHandler = target.start
    parser.EndElementHandler = target.end
    parser.CharacterDataHandler = target.data
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, LookupError, ValueError) as error:  # LookupError: unknown encoding
        raise ClientError(S3Code.MALFORMED_XML) from error
    return target.close()


class Children:
    """The children of an element, held to what a document's schema allows there.

    Args:
        node: an element of a request's document; text between its children is not looked at.
        once: names that may stand at most once.
        several: names that may stand any number of times.

    Raises:
        ClientError: MalformedXML for any other child, and for a second of `once`; the methods
            below raise it for a child that has to be there, and for a text that has children.
    """

    def __init__(
        self, node: Element, *, once: Collection[str] = (), several: Collection[str] = ()
    ) -> None:
        self._of = node.tag
        self._found: dict[str, list[Element]] = {}
        for child in node:
            found = self._found.setdefault(child.tag, [])
            found.append(child)
            if child.tag not in several and (child.tag not in once or len(found) > 1):
                raise malformed(f"{self._of} holds an unexpected {child.tag}.")

    def each(self, name: str) -> list[Element]:
        """All children of that name, in order."""
        return self._found.get(name, [])

    def one(self, name: str) -> Element | None:
        """The child of that name, or None."""
        return next(iter(self.each(name)), None)

    def need(self, name: str) -> Element:
        """The child of that name, which has to be there."""
        child = self.one(name)
        if child is None:
            raise malformed(f"{self._of} lacks a {name}.")
        return child

    def texts(self, name: str) -> list[str]:
        """The texts of all children of that name, in order."""
        return [leaf_text(child) for child in self.each(name)]

    def text(self, name: str) -> str | None:
        """The text of the child of that name, or None where there is no such child."""
        child = self.one(name)
        return None if child is None else leaf_text(child)

    def need_text(self, name: str) -> str:
        """The text of the child of that name, which has to be there."""
        return leaf_text(self.need(name))


def leaf_text(node: Element) -> str:
    """The text of an element that may have no children; "" where it is empty."""
    if len(node):
        raise malformed(f"{node.tag} may hold text only.")
    return node.text or ""


def malformed(message: str) -> ClientError:
    """MalformedXML, saying what is wrong with the document."""
    return ClientError(S3Code.MALFORMED_XML, message)


class _Target:
    """Builds the tree from expat's events, and refuses what no S3 request contains."""

    def __init__(self) -> None:
        self._builder = TreeBuilder()
        self._depth = 0

    def doctype(self, *_: object) -> None:
        raise ClientError(S3Code.MALFORMED_XML, "A document type declaration is not allowed.")

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ClientError(S3Code.MALFORMED_XML, "The XML is nested too deeply.")
        self._builder.start(_local(name), {_local(key): text for key, text in attributes.items()})

    def end(self, name: str) -> None:
        self._depth -= 1
        self._builder.end(_local(name))

    def data(self, text: str) -> None:
        self._builder.data(text)

    def close(self) -> Element:
        return self._builder.close()


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _pieces(node: Element) -> Iterator[str]:
    attributes = "".join(
        f' {name}="{_ATTRIBUTE_ESCAPES.sub(_escape, text)}"' for name, text in node.items()
    )
    if not node.text and not len(node):
        yield f"<{node.tag}{attributes}/>"
        return
    yield f"<{node.tag}{attributes}>"
    yield _TEXT_ESCAPES.sub(_escape, node.text or "")
    for child in node:
        yield from _pieces(child)
    yield f"</{node.tag}>"


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    return _NAMED.get(character) or f"&#x{ord(character):x};"
