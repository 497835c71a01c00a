"""One HTTP connection at the level of bytes, with botocore as the signer."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import BinaryIO
from xml.etree import ElementTree

from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

REPLY_LIMIT_S = 20.0


@dataclass(frozen=True, slots=True)
class RawReply:
    """A reply as it came. Header names are lower case."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def code(self) -> str | None:
        """S3's error code."""
        return self.text("Code")

    def text(self, element: str) -> str | None:
        """What an element of an error says, read by the standard library's parser."""
        return ElementTree.fromstring(self.body).findtext(element)


def assert_error(reply: RawReply, status: int, code: str) -> None:
    """Insist on that error, in S3's XML."""
    assert (reply.status, reply.code) == (status, code), reply.body
    assert reply.headers["content-type"] == "application/xml"


class RawClient:
    """Sends what it is told to, and reads replies one by one."""

    def __init__(self, address: tuple[str, int], access_key: str, secret_key: str) -> None:
        self.host = f"{address[0]}:{address[1]}"
        self._address = address
        self._credentials = Credentials(access_key, secret_key)
        self._socket = socket.create_connection(address, timeout=REPLY_LIMIT_S)
        self._stream: BinaryIO = self._socket.makefile("rb")

    def __enter__(self) -> RawClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stream.close()
        self._socket.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def close_writing(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def line(self) -> bytes:
        """The next line; b"" where the gateway hung up."""
        return self._stream.readline()

    def reply(self, method: str = "GET") -> RawReply:
        """The next final reply, read by its Content-Length."""
        _, status, reason = self.line().decode("latin-1").rstrip("\r\n").split(" ", 2)
        headers: dict[str, str] = {}
        while (line := self.line().decode("latin-1").rstrip("\r\n")) != "":
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        length = 0 if method == "HEAD" else int(headers.get("content-length", "0"))
        return RawReply(int(status), reason, headers, self._stream.read(length))

    def hung_up(self) -> bool:
        """Whether the gateway closes the connection without another byte."""
        try:
            return self._stream.read(1) == b""
        except ConnectionResetError:
            return True

    def signed_head(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        content_length: bool = True,
    ) -> bytes:
        """The head of a request whose target and headers go out just as they are given.

        `body` is hashed into the signature unless x-amz-content-sha256 is given.
        """
        request = AWSRequest(method, f"http://{self.host}{target}", dict(headers or {}), body)
        if content_length:
            request.headers["Content-Length"] = str(len(body))
        signer = S3SigV4Auth(self._credentials, "s3", "us-east-1")
        if (given := request.headers.get("x-amz-content-sha256")) is not None:
            signer.payload = lambda _: given  # as streaming clients do
        signer.add_auth(request)
        return self.head(method, target, dict(request.headers.items()))

    def presigned_target(
        self,
        method: str,
        target: str,
        expires_s: int = 60,
        headers: Mapping[str, str] | None = None,
    ) -> str:
        """`headers` are signed, and must be sent with it."""
        request = AWSRequest(method, f"http://{self.host}{target}", dict(headers or {}))
        S3SigV4QueryAuth(self._credentials, "s3", "us-east-1", expires=expires_s).add_auth(request)
        return str(request.url).removeprefix(f"http://{self.host}")

    def head(self, method: str, target: str, headers: Mapping[str, str]) -> bytes:
        """An unsigned head; Host is added."""
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self.host}"]
        lines += [f"{name}: {value}" for name, value in headers.items() if name.lower() != "host"]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def ask(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> RawReply:
        """Send a whole signed request and read its reply."""
        self.send(self.signed_head(method, target, body, headers) + body)
        return self.reply(method)
