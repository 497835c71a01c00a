"""wire.form_data: urllib3 writes forms, and every cut of them reads the same."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from post_forms import read_form
from request_heads import head
from s3_desk import refused
from urllib3.fields import RequestField
from urllib3.filepost import encode_multipart_formdata

from gateway.errors import S3Code
from gateway.wire.form_data import FormFields, form_boundary, is_form

BOUNDARY = "----frontier"


@dataclass(frozen=True)
class Read:
    """A form as it was read."""

    fields: FormFields
    file: bytes


def written(fields: dict[str, str], file: bytes, filename: str | None = "f.txt") -> bytes:
    """A form as a client writes it."""
    parts = [RequestField.from_tuples(name, value) for name, value in fields.items()]
    parts.append(RequestField.from_tuples("file", (filename or "", file)))
    return encode_multipart_formdata(parts, boundary=BOUNDARY)[0]


def read(data: bytes, cut_bytes: int = 1 << 20, limit_bytes: int = 20 * 1024) -> Read:
    """The form in pieces of `cut_bytes`."""
    return Read(*read_form(data, BOUNDARY.encode(), cut_bytes, limit_bytes))


@pytest.mark.parametrize("cut_bytes", [1, 2, 3, 7, 64, 4096])
def test_read__any_cut__gives_fields_and_file(cut_bytes: int) -> None:
    file = b"line\r\n--" + BOUNDARY.encode()[:-1] + b"\r\n\r\r\n-\x00\xff"
    fields = {"Key": "a/ü", "acl": "", "x-amz-meta-a": "two\r\nlines"}
    found = read(written(fields, file), cut_bytes)
    assert found.file == file
    assert found.fields == FormFields(
        {"key": "a/ü", "acl": "", "x-amz-meta-a": "two\r\nlines"}, "f.txt"
    )


@given(st.binary(max_size=300), st.integers(1, 50))
def test_read__any_file_without_the_boundary__is_whole(file: bytes, cut_bytes: int) -> None:
    assert read(written({"key": "k"}, file), cut_bytes).file == file


def test_read__preamble_padding_and_epilogue__are_nothing() -> None:
    form = (
        b"preamble\r\n--" + BOUNDARY.encode() + b" \t\r\n"
        b"Content-Type: text/plain\r\nCONTENT-DISPOSITION: form-data ; name=key\r\n\r\nk\r\n--"
        + BOUNDARY.encode()
        + b'\r\nContent-Disposition: form-data; name="file"; filename="a\\"b"\r\n\r\nbytes\r\n--'
        + BOUNDARY.encode()
        + b"--\r\nepilogue"
    )
    assert read(form, 5) == Read(FormFields({"key": "k"}, 'a"b'), b"bytes")


def test_read__fields_behind_the_file__are_ignored() -> None:
    two = written({"key": "k"}, b"one").removesuffix(b"--\r\n") + b"\r\n"
    rest = written({"acl": "public-read"}, b"two").partition(b"\r\n")[2]
    assert read(two + rest) == Read(FormFields({"key": "k"}, "f.txt"), b"one")


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", S3Code.MALFORMED_POST_REQUEST),
        (b"no boundary", S3Code.MALFORMED_POST_REQUEST),
        (b"------frontier--", S3Code.INCORRECT_NUMBER_OF_FILES),
        (b"------frontierX\r\n\r\n\r\n", S3Code.MALFORMED_POST_REQUEST),
        (b"------frontier\r\n\r\nvalue", S3Code.MALFORMED_POST_REQUEST),
        (b"------frontier\r\nContent-Type: a\r\n\r\nv", S3Code.MALFORMED_POST_REQUEST),
        (written({"key": "k"}, b"file")[:60], S3Code.MALFORMED_POST_REQUEST),
        (written({"key": "k"}, b"file")[:-20], S3Code.MALFORMED_POST_REQUEST),
        (written({"key": "k", "KEY": "l"}, b"file"), S3Code.MALFORMED_POST_REQUEST),
        (
            b'------frontier\r\nContent-Disposition: form-data; name="k"\r\n\r\n\xff\r\n'
            b"------frontier--",
            S3Code.MALFORMED_POST_REQUEST,
        ),
        (
            b'------frontier\r\nContent-Disposition: form-data; name="k"\r\n\r\nv\r\n'
            b"------frontier--",
            S3Code.INCORRECT_NUMBER_OF_FILES,
        ),
    ],
)
def test_read__broken__is_the_clients_error(data: bytes, code: S3Code) -> None:
    with refused(code):
        read(data)
    with refused(code):
        read(data, 1)


def test_read__head_over_the_limit__is_refused_before_it_is_held() -> None:
    data = written({"key": "k" * 2000}, b"file")
    assert read(data, limit_bytes=2300).file == b"file"
    for cut_bytes in (1, 1 << 20):
        with refused(S3Code.MAX_POST_PRE_DATA_LENGTH_EXCEEDED):
            read(data, cut_bytes, limit_bytes=2000)


def test_is_form__content_type__heeds_no_case_nor_parameters() -> None:
    assert is_form(head("POST", content_type="Multipart/Form-Data; boundary=x"))
    assert not is_form(head("POST", content_type="application/x-www-form-urlencoded"))
    assert not is_form(head("POST"))


@pytest.mark.parametrize(
    ("text", "boundary"),
    [
        ("multipart/form-data; boundary=abc", b"abc"),
        ('multipart/form-data; charset=utf-8; boundary="a b"', b"a b"),
        ("multipart/form-data; BOUNDARY=a; boundary=b", b"a"),
    ],
)
def test_form_boundary__content_type__names_it(text: str, boundary: bytes) -> None:
    assert form_boundary(head("POST", content_type=text)) == boundary


@pytest.mark.parametrize("text", ["", "boundary=", 'boundary="a "', "boundary=" + "a" * 71])
def test_form_boundary__none_that_may_be__is_malformed(text: str) -> None:
    with refused(S3Code.MALFORMED_POST_REQUEST):
        form_boundary(head("POST", content_type=f"multipart/form-data; {text}"))
