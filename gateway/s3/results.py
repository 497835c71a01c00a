"""What a verb answers, before it is HTTP: status, headers, and a document or an open object."""

from __future__ import annotations

from dataclasses import dataclass
from xml.etree.ElementTree import Element

from gateway.storage.port import ObjectReader
from gateway.wire.extent import Extent


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply without a body. Header names are lower case, in the order they are sent."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()

    def get(self, name: str) -> str | None:
        """The value of a header, or None."""
        return next((value for key, value in self.headers if key == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class XmlReply(Reply):
    """A reply whose body is an XML document; `root` carries S3's namespace where S3 has one."""

    root: Element


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonReply(Reply):
    """A reply whose body is a JSON document: a bucket's policy, as it was put."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectReply(Reply):
    """An open object and the extent to deliver: over HTTP as the body, or by RDMA.

    Whoever delivers it closes `reader`, also when nothing is sent.
    """

    reader: ObjectReader
    extent: Extent
