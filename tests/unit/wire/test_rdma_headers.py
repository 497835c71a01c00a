from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from request_heads import with_header

from gateway.errors import ClientError, S3Code, TransportError
from gateway.wire.rc_token import RcToken, Transport
from gateway.wire.rdma_headers import (
    CancelRequest,
    PrepareReply,
    PrepareRequest,
    ReadyReply,
    ReadyRequest,
    RemoteMemory,
    TransferOp,
    cancel_headers,
    parse_cancel,
    parse_prepare,
    parse_prepare_reply,
    parse_ready,
    parse_ready_reply,
    prepare_headers,
    prepare_reply_headers,
    ready_headers,
    ready_reply_headers,
    require_protocol,
    unsupported,
)
from gateway.wire.request import RequestHead

GID = bytes.fromhex("00000000000000000000ffff7f000001")
TOKEN = RcToken(Transport.RC, qpn=0x11, gid=GID, port_num=1)
SESSION = "0123456789abcdef0123456789abcdef"

PREPARE = RequestHead(
    "POST",
    "/.hipobj-rc/prepare",
    "",
    (
        ("host", "h"),
        ("x-amz-rdma-protocol", "hipobj-rc-v2"),
        ("x-amz-rdma-token", TOKEN.format().upper()),
        ("x-amz-rdma-psn", "ABCDEF"),
        ("x-amz-rdma-cookie", "DEADBEEF"),
        ("x-amz-rdma-op", "GET"),
        ("x-amz-rdma-target", "/bucket/a%20key?versionId=null"),
        ("x-amz-rdma-size", "2147483647"),
        ("x-amz-rdma-offset", "7"),
    ),
)
READY = RequestHead(
    "POST",
    "/.hipobj-rc/ready",
    "",
    (
        ("x-amz-rdma-protocol", "hipobj-rc-v2"),
        ("x-amz-rdma-session", SESSION.upper()),
        ("x-amz-rdma-cookie", "0000000f"),
        ("x-amz-rdma-qpn", "11"),
        ("x-amz-rdma-mr-addr", "7F0000001000"),
        ("x-amz-rdma-mr-rkey", "1A2B"),
    ),
)
PREPARE_REPLY = (
    ("X-Amz-Rdma-Protocol", "hipobj-rc-v2"),
    ("X-Amz-Rdma-Reply", f"200:{TOKEN.format()}"),
    ("X-Amz-Rdma-Session", SESSION),
    ("X-Amz-Rdma-Psn", "00abcd"),
    ("X-Amz-Rdma-Qpn", "11"),
    ("X-Amz-Rdma-Mr-Addr", "7f00"),
    ("X-Amz-Rdma-Mr-Rkey", "1f"),
)
READY_REPLY = (
    ("Content-Length", "0"),
    ("x-amz-rdma-protocol", "hipobj-rc-v2"),
    ("x-amz-rdma-cookie", "0000000F"),
    ("x-amz-rdma-bytes-transferred", "4096"),
    ("x-amz-rdma-etag", '"abc"'),
    ("x-amz-rdma-version-id", "v1"),
    ("x-amz-rdma-checksum", "CRC64NVME AAAAAAAAAAA="),
)


def refused(parse: Callable[[RequestHead], object], head: RequestHead) -> ClientError:
    with pytest.raises(ClientError) as caught:
        parse(head)
    return caught.value


def test_parse_prepare__every_header__is_read() -> None:
    assert parse_prepare(PREPARE) == PrepareRequest(
        token=TOKEN,
        psn=0xABCDEF,
        cookie=0xDEADBEEF,
        op=TransferOp.GET,
        raw_path="/bucket/a%20key",
        raw_query="versionId=null",
        size_bytes=2**31 - 1,
        offset_bytes=7,
    )


def test_parse_prepare__no_offset_and_early_memory__is_accepted() -> None:
    early = with_header(with_header(PREPARE, "x-amz-rdma-offset", None), "x-amz-rdma-qpn", "11")

    assert parse_prepare(early).offset_bytes == 0


@pytest.mark.parametrize("psn", ["1", "00000f", "F"])
def test_parse_prepare__psn_of_up_to_six_digits__is_accepted(psn: str) -> None:
    assert parse_prepare(with_header(PREPARE, "x-amz-rdma-psn", psn)).psn == int(psn, 16)


@pytest.mark.parametrize(
    ("op", "query"),
    [
        ("PUT", ""),
        ("PUT", "?partNumber=1&uploadId=a"),
        ("PUT", "?uploadId=a&partNumber=1"),
        ("GET", ""),
        ("GET", "?versionId=v"),
    ],
)
def test_parse_prepare__query_of_the_operation__is_accepted(op: str, query: str) -> None:
    changed = with_header(
        with_header(PREPARE, "x-amz-rdma-op", op), "x-amz-rdma-target", f"/b/k{query}"
    )

    assert parse_prepare(changed).raw_query == query.removeprefix("?")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("psn", None),
        ("psn", ""),
        ("psn", "0"),
        ("psn", "000000"),
        ("psn", "1000000"),
        ("psn", "0x1"),
        ("psn", "-1"),
        ("cookie", None),
        ("cookie", "00000000"),
        ("cookie", "1234567"),
        ("cookie", "123456789"),
        ("cookie", "1234567g"),
        ("op", None),
        ("op", "get"),
        ("op", "DELETE"),
        ("size", None),
        ("size", "0"),
        ("size", "-1"),
        ("size", "2147483648"),
        ("size", "1e3"),
        ("size", "1" * 5000),
        ("offset", ""),
        ("offset", "-1"),
        ("offset", str(2**63)),
        ("token", None),
        ("target", None),
        ("target", ""),
        ("target", "/"),
        ("target", "bucket/key"),
        ("target", "/bucket"),
        ("target", "/bucket/"),
        ("target", "//key"),
        ("target", "/b/%zz"),
        ("target", "/b/%FF"),
        ("target", "/b/k?versionId=%zz"),
        ("target", "/b/k?partNumber=1&uploadId=a"),
        ("target", "/b/k?versionId=a&versionId=b"),
        ("target", "/b/k?acl"),
    ],
)
def test_parse_prepare__header_out_of_range__is_400_and_named(name: str, value: str | None) -> None:
    error = refused(parse_prepare, with_header(PREPARE, f"x-amz-rdma-{name}", value))

    assert error.code is S3Code.INVALID_ARGUMENT
    assert error.message.startswith(f"x-amz-rdma-{name}: ")
    assert error.details["ArgumentName"] == f"x-amz-rdma-{name}"


@pytest.mark.parametrize("query", ["?partNumber=1", "?versionId=a", "?partNumber=1&uploadId=a&x=1"])
def test_parse_prepare__put_with_another_query__is_400(query: str) -> None:
    put = with_header(PREPARE, "x-amz-rdma-op", "PUT")

    error = refused(parse_prepare, with_header(put, "x-amz-rdma-target", f"/b/k{query}"))

    assert error.code is S3Code.INVALID_ARGUMENT


def test_parse_prepare__malformed_token__is_invalid_rdma_token() -> None:
    error = refused(parse_prepare, with_header(PREPARE, "x-amz-rdma-token", "0" * 87))

    assert error.code is S3Code.INVALID_RDMA_TOKEN


@pytest.mark.parametrize("parse", [parse_prepare, parse_ready, parse_cancel])
@pytest.mark.parametrize("protocol", [None, "", "hipobj-rc-v1", "HIPOBJ-RC-V2"])
def test_parse__another_protocol__is_501_with_the_status_header(
    parse: Callable[[RequestHead], object], protocol: str | None
) -> None:
    error = refused(parse, with_header(PREPARE, "x-amz-rdma-protocol", protocol))

    assert error.code.status == 501
    assert error.headers == {"x-amz-rdma-protocol-status": "unsupported"}


def test_require_protocol__given_twice__is_501() -> None:
    twice = replace(READY, headers=(*READY.headers, ("x-amz-rdma-protocol", "hipobj-rc-v2")))

    assert refused(require_protocol, twice).code.status == 501  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["x-amz-rdma-cookie", "x-amz-rdma-session", "x-amz-rdma-anything"])
def test_parse__header_given_twice__is_400_and_named(name: str) -> None:
    twice = replace(READY, headers=(*READY.headers, (name, "0000000f"), (name, "0000000f")))

    error = refused(parse_ready, twice)

    assert error.code is S3Code.INVALID_ARGUMENT
    assert name in error.message


def test_parse_ready__every_header__is_read() -> None:
    assert parse_ready(READY) == ReadyRequest(
        SESSION, cookie=15, qpn=0x11, memory=RemoteMemory(0x7F0000001000, 0x1A2B)
    )


def test_parse_ready__put_without_memory__is_none() -> None:
    bare = with_header(with_header(READY, "x-amz-rdma-mr-addr", None), "x-amz-rdma-mr-rkey", None)

    assert parse_ready(bare).memory is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("session", None),
        ("session", SESSION[:-1]),
        ("session", SESSION + "0"),
        ("session", SESSION[:-1] + "g"),
        ("cookie", None),
        ("cookie", "0"),
        ("qpn", None),
        ("qpn", "1000000"),
        ("qpn", ""),
        ("mr-addr", None),
        ("mr-addr", "1" * 17),
        ("mr-rkey", None),
        ("mr-rkey", "1" * 9),
        ("mr-rkey", "0x12"),
    ],
)
def test_parse_ready__header_out_of_range__is_400_and_named(name: str, value: str | None) -> None:
    error = refused(parse_ready, with_header(READY, f"x-amz-rdma-{name}", value))

    assert error.code is S3Code.INVALID_ARGUMENT
    assert error.details["ArgumentName"] == f"x-amz-rdma-{name}"
    assert value is None or len(value) < 2 or value not in error.message


def test_parse_cancel__cookie__is_optional() -> None:
    assert parse_cancel(READY) == CancelRequest(SESSION, 15)
    assert parse_cancel(with_header(READY, "x-amz-rdma-cookie", None)) == CancelRequest(SESSION)


def test_parse_cancel__malformed_session__is_400() -> None:
    error = refused(parse_cancel, with_header(READY, "x-amz-rdma-session", "1"))

    assert error.code is S3Code.INVALID_ARGUMENT


@pytest.mark.parametrize("separator", [":", " ", ": "])
def test_parse_prepare_reply__colon_or_space_and_any_case__is_read(separator: str) -> None:
    headers = tuple(
        (name, value.replace("200:", f"200{separator}")) for name, value in PREPARE_REPLY
    )

    assert parse_prepare_reply(headers) == PrepareReply(
        TOKEN, SESSION, 0xABCD, RemoteMemory(0x7F00, 0x1F)
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Protocol", "other"),
        ("Reply", "501"),
        ("Reply", "200:00"),
        ("Session", "1"),
        ("Psn", "0"),
        ("Qpn", "12"),
        ("Mr-Addr", None),
        ("Mr-Rkey", None),
        ("Protocol", None),
        ("Reply", None),
    ],
)
def test_parse_prepare_reply__field_wrong__is_a_transport_error(
    name: str, value: str | None
) -> None:
    full = f"X-Amz-Rdma-{name}"
    headers = [(key, value if key == full else text) for key, text in PREPARE_REPLY]

    with pytest.raises(TransportError) as caught:
        parse_prepare_reply([(key, text) for key, text in headers if text is not None])

    assert full.lower() in caught.value.message


def test_parse_prepare_reply__no_memory_at_all__is_a_transport_error() -> None:
    with pytest.raises(TransportError):
        parse_prepare_reply(PREPARE_REPLY[:-2])


def test_parse_ready_reply__every_header__is_read() -> None:
    assert parse_ready_reply(READY_REPLY) == ReadyReply(15, 4096, '"abc"', "v1", "AAAAAAAAAAA=")


def test_parse_ready_reply__only_what_is_needed__is_read() -> None:
    assert parse_ready_reply(READY_REPLY[:4]) == ReadyReply(15, 4096)


def test_parse_ready_reply__no_bytes_transferred__is_a_transport_error() -> None:
    with pytest.raises(TransportError):
        parse_ready_reply(READY_REPLY[:3])


def test_headers__each_message__is_read_back_by_its_other_end() -> None:
    prepare = parse_prepare(PREPARE)
    ready = parse_ready(READY)
    reply = PrepareReply(TOKEN, SESSION, 1, RemoteMemory(0, 0))
    done = ReadyReply(15, 0, None, None, "AAAAAAAAAAA=")

    assert parse_prepare(replace(PREPARE, headers=prepare_headers(prepare))) == prepare
    assert parse_ready(replace(READY, headers=ready_headers(ready))) == ready
    bare = replace(ready, memory=None)
    assert parse_ready(replace(READY, headers=ready_headers(bare))) == bare
    assert parse_prepare_reply(prepare_reply_headers(reply)) == reply
    assert parse_ready_reply(ready_reply_headers(done)) == done
    for cancel in (CancelRequest(SESSION), CancelRequest(SESSION, 15)):
        assert parse_cancel(replace(READY, headers=cancel_headers(cancel))) == cancel


def test_prepare_headers__numbers__have_the_protocols_widths() -> None:
    headers = dict(prepare_headers(replace(parse_prepare(PREPARE), psn=0xA, cookie=0xB)))

    assert headers["x-amz-rdma-psn"] == "00000a"
    assert headers["x-amz-rdma-cookie"] == "0000000b"
    assert headers["x-amz-rdma-target"] == "/bucket/a%20key?versionId=null"


def test_unsupported__any_message__carries_the_status_header() -> None:
    assert unsupported("RDMA is off").headers["x-amz-rdma-protocol-status"] == "unsupported"


def test_repr__memory__hides_the_rkey() -> None:
    assert "6699" not in repr(parse_ready(READY))  # 0x1A2B
