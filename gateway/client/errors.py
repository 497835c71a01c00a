"""Everything a transfer can end in, other than success.

::

    S3RdmaError
    ├── S3Error            the server answered with an error: its code, status, message, request id
    │   └── TooShortError
    ├── ConnectError       no answer: the endpoint can't be reached, or a deadline passed
    ├── TransferError      the bytes did not arrive whole; the buffer's or object's content is void
    ├── UnsupportedError   no RDMA between this host and that server, and why
    │   ├── TooLargeError
    │   └── UnreachableError
    └── CredentialsError   there is nothing to sign with

Each text says what to do. None of them holds a secret, a signature or an rkey.
"""

from __future__ import annotations


class S3RdmaError(Exception):
    """The base of this package's errors."""


class S3Error(S3RdmaError):
    """The server's answer, as S3 words it.

    Attributes:
        code: S3's code (``NoSuchKey``); where there was no XML, the status's name (``NotFound``).
        status: the HTTP status, 300..599.
        message: the server's text; may be empty.
        request_id: ``x-amz-request-id``, or "" where there was none.
        retry_after_s: what a 503 asked for, seconds >= 0.
    """

    def __init__(
        self,
        code: str,
        status: int,
        message: str = "",
        request_id: str = "",
        retry_after_s: float = 0.0,
    ) -> None:
        text = f"{code} ({status})" + (f": {message}" if message else "")
        super().__init__(text + (f" [request {request_id}]" if request_id else ""))
        self.code = code
        self.status = status
        self.message = message
        self.request_id = request_id
        self.retry_after_s = retry_after_s


class TooShortError(S3Error):
    """The object is longer than the buffer that was offered for it.

    Attributes:
        needed_bytes: the object's length.
    """

    def __init__(self, needed_bytes: int) -> None:
        super().__init__("BufferTooShort", 200, f"the object has {needed_bytes} bytes")
        self.needed_bytes = needed_bytes


class ConnectError(S3RdmaError):
    """The endpoint did not answer, or stopped answering."""


class TransferError(S3RdmaError):
    """The data phase failed, or what arrived is not what was announced."""


class UnsupportedError(S3RdmaError):
    """RDMA can't be used here; plain HTTP can. The text is the reason, in one line."""


class TooLargeError(UnsupportedError):
    """One session can't carry that many bytes at this server (413): cut into smaller parts."""


class UnreachableError(UnsupportedError):
    """The server takes sessions, but no packet of theirs gets through: nor will the next one's."""


class CredentialsError(S3RdmaError):
    """No credentials were found, or they can't be used."""
