"""multipart/form-data with one file at its end (RFC 7578, RFC 2046 section 5.1), without I/O.

`FormHead` takes everything up to the file's first byte, which S3 bounds; `FileDecoder` takes the
file, however long, and whatever follows it, which S3 ignores.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from gateway.errors import ClientError, S3Code
from gateway.wire.request import RequestHead

FILE_FIELD = "file"

_TYPE = "multipart/form-data"
_PARAMETER = re.compile(r';\s*([!-+\--:<-~]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]*))')
_BOUNDARY = re.compile(r"[0-9A-Za-z'()+_,\-./:=? ]{0,69}[0-9A-Za-z'()+_,\-./:=?]")
_PADDED_LINE = re.compile(rb"[ \t]*\r\n")
_CRLF = b"\r\n"
_BLANK_LINE = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class FormFields:
    """What stands before the file.

    Attributes:
        values: field name, in lower case, to its text; none is there twice.
        filename: the file's own name as the client gave it; "" where it did not.
    """

    values: Mapping[str, str]
    filename: str


def is_form(head: RequestHead) -> bool:
    """Whether a request's body calls itself a form with a file."""
    kind = (head.get("content-type") or "").partition(";")[0]
    return kind.strip().lower() == _TYPE


def form_boundary(head: RequestHead) -> bytes:
    """The boundary that the Content-Type names. Raises MalformedPOSTRequest."""
    parameters = _parameters(head.get("content-type") or "")
    boundary = parameters.get("boundary", "")
    if not _BOUNDARY.fullmatch(boundary):
        raise _malformed("Its Content-Type names no usable boundary.")
    return boundary.encode("ascii")


class _State(Enum):
    PREAMBLE = auto()
    AFTER_BOUNDARY = auto()
    HEADERS = auto()
    VALUE = auto()
    FILE = auto()


class FormHead:
    """Collects fields until the file begins.

    Args:
        boundary: as `form_boundary` gives it.
        limit_bytes: of everything before the file, boundaries included.
    """

    def __init__(self, boundary: bytes, limit_bytes: int) -> None:
        self._delimiter = _CRLF + b"--" + boundary
        self._limit_bytes = limit_bytes
        self._consumed_bytes = 0
        # The first boundary may be the very first bytes: as if a line had ended before it.
        self._buffer = bytearray(_CRLF)
        self._state = _State.PREAMBLE
        self._name = ""
        self._values: dict[str, str] = {}
        self._filename = ""

    @property
    def complete(self) -> bool:
        """Whether the file has begun."""
        return self._state is _State.FILE

    @property
    def fields(self) -> FormFields:
        """All fields, once `complete`."""
        return FormFields(self._values, self._filename)

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes.

        Returns:
            What of them belongs to the file and behind it; b"" until it has begun.

        Raises:
            ClientError: MaxPostPreDataLengthExceededError, MalformedPOSTRequest, or
                IncorrectNumberOfFilesInPostRequest where the form ends without a file.
        """
        self._buffer += data
        while self._step():
            pass
        if self.complete:
            rest = bytes(self._buffer)
            self._buffer.clear()
            return rest
        if self._consumed_bytes + len(self._buffer) > self._limit_bytes:
            raise self._too_long()
        return b""

    def finish(self) -> None:
        """Raises MalformedPOSTRequest: the body is over before a file began."""
        if not self.complete:
            raise _malformed("It ends before its file.")

    def _step(self) -> bool:
        """Go on by one state; False where that takes more bytes, or the file has begun."""
        match self._state:
            case _State.PREAMBLE:
                return self._cut(self._delimiter, _State.AFTER_BOUNDARY) is not None
            case _State.AFTER_BOUNDARY:
                return self._after_boundary()
            case _State.HEADERS:
                block = self._cut(_BLANK_LINE, _State.VALUE)
                if block is None:
                    return False
                self._begin_part(block)
                return not self.complete
            case _State.VALUE:
                value = self._cut(self._delimiter, _State.AFTER_BOUNDARY)
                if value is None:
                    return False
                self._end_field(value)
                return True
            case _State.FILE:
                return False

    def _after_boundary(self) -> bool:
        """Either two dashes, which end the form, or the rest of the boundary's line."""
        if self._buffer.startswith(b"--"):
            raise ClientError(S3Code.INCORRECT_NUMBER_OF_FILES)
        line = _PADDED_LINE.match(self._buffer)
        if line is None:
            if _CRLF in self._buffer:
                raise _malformed("Something follows a boundary on its line.")
            return False
        # The line's own end stays: headers may be none, and the blank line is then all there is.
        self._drop(line.end() - len(_CRLF))
        self._state = _State.HEADERS
        return True

    def _cut(self, mark: bytes, then: _State) -> bytes | None:
        """What stands before `mark`, taken out together with it; None while it has not come."""
        at = self._buffer.find(mark)
        if at < 0:
            return None
        before = bytes(self._buffer[:at])
        self._drop(at + len(mark))
        self._state = then
        return before

    def _drop(self, length_bytes: int) -> None:
        del self._buffer[:length_bytes]
        self._consumed_bytes += length_bytes
        if self._consumed_bytes > self._limit_bytes:
            raise self._too_long()

    def _begin_part(self, block: bytes) -> None:
        disposition = _disposition(block)
        name = disposition.get("name")
        if name is None:
            raise _malformed("A part has no name.")
        self._name = name.lower()
        if self._name == FILE_FIELD:
            self._filename = disposition.get("filename", "")
            self._state = _State.FILE

    def _end_field(self, value: bytes) -> None:
        if self._name in self._values:
            raise _malformed(f"The field {self._name[:64]} is there twice.")
        self._values[self._name] = _text(value)

    def _too_long(self) -> ClientError:
        return ClientError(
            S3Code.MAX_POST_PRE_DATA_LENGTH_EXCEEDED,
            details={"MaxPostPreDataLengthBytes": str(self._limit_bytes)},
        )


class FileDecoder:
    """Cuts the file out of what follows the form's head.

    Args:
        boundary: as `form_boundary` gives it.
    """

    def __init__(self, boundary: bytes) -> None:
        self._delimiter = _CRLF + b"--" + boundary
        self._held = b""
        self._ended = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The file's bytes so far as they are certain; what could begin a boundary is held back."""
        if self._ended:
            return
        data = self._held + data
        at = data.find(self._delimiter)
        if at >= 0:
            self._ended = True
            self._held = b""
            yield data[:at]
            return
        keep = len(self._delimiter) - 1
        self._held = data[-keep:]
        yield data[:-keep]

    def finish(self) -> Mapping[str, str]:
        """Forms have no trailers: {}. Raises MalformedPOSTRequest: no boundary ended the file."""
        if not self._ended:
            raise _malformed("Its file has no end.")
        return {}


def _disposition(block: bytes) -> Mapping[str, str]:
    """The parameters of a part's Content-Disposition; {} where there is none."""
    for line in block.split(_CRLF):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-disposition":
            return _parameters(_text(value))
    return {}


def _parameters(text: str) -> Mapping[str, str]:
    """name=value pairs behind the first semicolon; of a repeated name the first counts."""
    parameters: dict[str, str] = {}
    for found in _PARAMETER.finditer(text):
        value = found[3] if found[2] is None else re.sub(r"\\(.)", r"\1", found[2])
        parameters.setdefault(found[1].lower(), value)
    return parameters


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _malformed("It holds text that is not UTF-8.") from error


def _malformed(reason: str) -> ClientError:
    return ClientError(
        S3Code.MALFORMED_POST_REQUEST, f"{S3Code.MALFORMED_POST_REQUEST.message} {reason}"
    )
