"""web.render: heads and error documents, read back by the standard library."""

from __future__ import annotations

import http.client
import io
from xml.etree import ElementTree

import pytest

from gateway.errors import BusyError, ClientError, GatewayError, InternalError, S3Code
from gateway.s3.results import JsonReply, ObjectReply, Reply, XmlReply
from gateway.web.render import HttpReply, render, render_error
from gateway.wire import xml
from gateway.wire.extent import Extent

DATE = "Sun, 06 Nov 1994 08:49:37 GMT"


class Wire(io.BytesIO):
    """A socket for http.client to read from."""

    def makefile(self, _mode: str) -> Wire:
        return self


def parsed(reply: HttpReply, method: str = "GET") -> http.client.HTTPResponse:
    response = http.client.HTTPResponse(Wire(reply.head(DATE, close=False) + reply.body), 0, method)  # type: ignore[arg-type]
    response.begin()
    return response


def error(failure: GatewayError, method: str = "GET") -> HttpReply:
    return render_error(failure, method=method, resource="/b/k%20", request_id="ID")


def test_error__any__is_s3s_document_without_a_charset() -> None:
    failure = ClientError(S3Code.NO_SUCH_KEY, details={"Key": "a<b"})
    response = parsed(error(failure))
    assert response.status == 404
    assert response.getheader("Content-Type") == "application/xml"
    root = ElementTree.fromstring(response.read())
    assert [child.tag for child in root] == [
        "Code",
        "Message",
        "Key",
        "Resource",
        "RequestId",
        "HostId",
    ]
    assert root.findtext("Code") == "NoSuchKey"
    assert root.findtext("Key") == "a<b"
    assert root.findtext("Resource") == "/b/k%20"
    assert root.findtext("RequestId") == response.getheader("x-amz-request-id") == "ID"
    assert root.findtext("HostId") == response.getheader("x-amz-id-2")


def test_error__to_head__has_the_head_only() -> None:
    shown = error(ClientError(S3Code.NO_SUCH_KEY))
    reply = error(ClientError(S3Code.NO_SUCH_KEY), method="HEAD")
    assert reply.body == b""
    assert parsed(reply, "HEAD").getheader("Content-Length") == str(len(shown.body))


def test_error__not_modified__has_no_body_and_keeps_its_validators() -> None:
    reply = error(ClientError(S3Code.NOT_MODIFIED, headers={"ETag": '"e"'}))
    response = parsed(reply)
    assert (response.status, reply.body) == (304, b"")
    assert response.getheader("ETag") == '"e"'
    assert response.getheader("Content-Length") is None


def test_error__busy__says_when_to_come_back() -> None:
    response = parsed(error(BusyError("too many", retry_after_s=3)))
    assert (response.status, response.getheader("Retry-After")) == (503, "3")


def test_error__internal__says_nothing_of_its_cause() -> None:
    reply = error(InternalError("disk /secret/path is on fire"))
    assert reply.status == 500
    assert b"secret" not in reply.body


def test_reply__plain__has_length_zero() -> None:
    assert parsed(render(Reply(), method="PUT", request_id="ID")).getheader("Content-Length") == "0"


@pytest.mark.parametrize(("method", "status"), [("DELETE", 204), ("GET", 304)])
def test_reply__of_a_status_without_a_body__has_no_length(method: str, status: int) -> None:
    reply = render(Reply(status), method=method, request_id="ID")
    assert parsed(reply, method).getheader("Content-Length") is None


def test_reply__to_head__keeps_the_objects_length() -> None:
    reply = render(Reply(headers=(("content-length", "77"),)), method="HEAD", request_id="ID")
    assert parsed(reply, "HEAD").getheader("Content-Length") == "77"


def test_reply__document__is_xml_with_its_length() -> None:
    result = XmlReply(root=xml.document("Owner", xml.element("ID", text="é")))
    response = parsed(render(result, method="GET", request_id="ID"))
    assert response.getheader("Content-Type") == "application/xml"
    body = response.read()
    assert len(body) == int(response.getheader("Content-Length") or "")
    assert ElementTree.fromstring(body)[0].text == "é"


def test_reply__json__is_sent_as_it_was_stored() -> None:
    response = parsed(render(JsonReply(text='{"a": "é"}'), method="GET", request_id="ID"))
    assert response.getheader("Content-Type") == "application/json"
    assert response.read().decode() == '{"a": "é"}'


def test_reply__object__is_delivered_at_the_extents_length() -> None:
    result = ObjectReply(206, extent=Extent(5, 10), reader=None)  # type: ignore[arg-type]
    reply = render(result, method="GET", request_id="ID")
    assert reply.delivery is result
    assert parsed(reply).getheader("Content-Length") == "10"


def test_head__values_that_came_as_latin_1__go_out_as_the_same_bytes() -> None:
    on_wire = "x-amz-meta-a: é ✓".encode()
    value = on_wire.decode("latin-1").partition(": ")[2]
    reply = HttpReply(200, (("x-amz-meta-a", value),))
    assert on_wire in reply.head(DATE, close=False)


def test_head__values_beyond_latin_1__go_out_as_utf_8() -> None:
    reply = HttpReply(200, (("content-disposition", 'attachment; filename="✓"'),))
    assert 'filename="✓"'.encode() in reply.head(DATE, close=False)


def test_head__value_with_line_ends__can_not_end_its_line() -> None:
    reply = HttpReply(200, (("content-type", "a\r\nSet-Cookie: b\x00"),))
    head = reply.head(DATE, close=False)
    assert b"Content-Type: a  Set-Cookie: b \r\n" in head


@pytest.mark.parametrize(
    ("name", "spelled"),
    [
        ("etag", b"ETag: v"),
        ("last-modified", b"Last-Modified: v"),
        ("x-amz-meta-Some", b"x-amz-meta-Some: v"),
    ],
)
def test_head__names__are_spelled_as_s3_spells_them(name: str, spelled: bytes) -> None:
    assert spelled in HttpReply(200, ((name, "v"),)).head(DATE, close=False)


def test_head__last_reply_of_a_connection__says_close() -> None:
    head = HttpReply(200, ()).head(DATE, close=True)
    assert head == f"HTTP/1.1 200 OK\r\nDate: {DATE}\r\nConnection: close\r\n\r\n".encode()
