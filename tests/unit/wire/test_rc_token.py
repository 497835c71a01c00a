from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import ClientError, S3Code
from gateway.wire.rc_token import TOKEN_BYTES, RcToken, Transport

GID = bytes.fromhex("fe800000000000000202c9fffe000001")

# Written out field by field from PROTOCOL section 1, not by our own packer.
TEXT = (
    "01"  # RC
    "efcdab00"  # qpn 0xabcdef
    "fe800000000000000202c9fffe000001"  # gid, network order
    "44332211"  # rkey 0x11223344
    "785634127f000000"  # addr 0x7f12345678
    "0000400000000000"  # length 4 MiB
    "01"  # port
    "3412"  # lid 0x1234
)
TOKEN = RcToken(
    Transport.RC,
    qpn=0xABCDEF,
    gid=GID,
    rkey=0x11223344,
    addr=0x7F12345678,
    length_bytes=4 << 20,
    port_num=1,
    lid=0x1234,
)

tokens = st.builds(
    RcToken,
    transport=st.sampled_from(Transport),
    qpn=st.integers(0, 2**24 - 1),
    gid=st.binary(min_size=16, max_size=16),
    rkey=st.integers(0, 2**32 - 1),
    addr=st.integers(0, 2**64 - 1),
    length_bytes=st.integers(0, 2**64 - 1),
    port_num=st.integers(0, 255),
    lid=st.integers(0, 2**16 - 1),
    suffix=st.none() | st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)),
)


def test_rc_token__layout__has_44_bytes() -> None:
    assert TOKEN_BYTES == 44
    assert len(TEXT) == 88


def test_parse__every_field_set__is_read() -> None:
    assert RcToken.parse(TEXT) == TOKEN
    assert RcToken.parse(TEXT.upper()) == TOKEN


def test_format__every_field_set__is_lower_case_hex() -> None:
    assert TOKEN.format() == TEXT


def test_parse__suffix__is_addr_and_size() -> None:
    assert RcToken.parse(f"{TEXT}:7F00:1000").suffix == (0x7F00, 0x1000)


def test_parse__stock_client__leaves_memory_at_zero() -> None:
    text = "01" + "efcdab00" + GID.hex() + "0" * 40 + "01" + "0000"

    token = RcToken.parse(text)

    assert (token.qpn, token.gid, token.port_num) == (0xABCDEF, GID, 1)
    assert (token.rkey, token.addr, token.length_bytes, token.lid) == (0, 0, 0, 0)
    assert not token.loopback


def test_loopback__88_zeros__is_true() -> None:
    assert RcToken.parse("0" * 88).loopback
    assert not TOKEN.loopback


@given(tokens)
def test_parse__of_format__is_the_same_token(token: RcToken) -> None:
    assert RcToken.parse(token.format()) == token


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "88 hex digits"),
        (TEXT[:-1], "88 hex digits"),
        (TEXT + "0", "88 hex digits"),
        (TEXT[:-1] + "g", "88 hex digits"),
        (" " + TEXT[1:], "88 hex digits"),
        (TEXT + "\n", "88 hex digits"),
        (TEXT + ":1", "88 hex digits"),
        (TEXT + "::", "88 hex digits"),
        (TEXT + ":1:" + "1" * 17, "88 hex digits"),
        ("02" + TEXT[2:], "transport"),
        ("01" + "efcdab01" + TEXT[10:], "qpNum"),
    ],
)
def test_parse__malformed__names_header_and_field(text: str, reason: str) -> None:
    with pytest.raises(ClientError) as caught:
        RcToken.parse(text, "x-amz-rdma-token")

    assert caught.value.code is S3Code.INVALID_RDMA_TOKEN
    assert "x-amz-rdma-token" in caught.value.message
    assert reason in caught.value.message
    assert TEXT[10:40] not in caught.value.message


def test_repr__token__hides_the_rkey() -> None:
    assert "rkey" not in repr(TOKEN)
    assert str(0x11223344) not in repr(TOKEN)
