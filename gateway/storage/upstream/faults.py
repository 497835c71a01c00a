"""What the service upstream answers, and what keeps it from answering, as the gateway's errors.

Its own code, message and status pass through. Only what speaks of the gateway's own credentials
does not: a client can neither read it right nor mend it.

https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

from gateway.errors import BusyError, ClientError, ForeignCode, GatewayError, InternalError, S3Code
from gateway.storage.upstream.breaker import unavailable

_OF_THE_KEY = frozenset(
    {
        "AuthorizationHeaderMalformed",
        "ExpiredToken",
        "InvalidAccessKeyId",
        "InvalidToken",
        "RequestTimeTooSkewed",
        "SignatureDoesNotMatch",
    }
)
_SLOW = frozenset({"SlowDown", "Throttling", "RequestLimitExceeded", "TooManyRequests"})
_RETRY_AFTER_S = 1

_ENVELOPE = frozenset({"Code", "Message", "Resource", "RequestId", "HostId"})  # made anew by render
_KEPT_HEADERS = ("x-amz-delete-marker", "x-amz-version-id", "allow")


def _by_code() -> Mapping[str, S3Code]:
    """S3's codes by their text; of those that share one, the first of its usual status."""
    known: dict[str, S3Code] = {}
    for row in S3Code:
        known.setdefault(row.code, row)
    return MappingProxyType(known)


_KNOWN = _by_code()


@dataclass(frozen=True, slots=True)
class Answer:
    """An error as the service gave it.

    Attributes:
        code: of its XML; "" where it gave none, as to a HEAD.
        status: HTTP's.
        details: the other elements of its XML that are text.
        headers: lower-case names.
    """

    code: str
    status: int
    message: str
    details: Mapping[str, str]
    headers: Mapping[str, str]

    @classmethod
    def of(cls, response: Mapping[str, Any]) -> Answer:
        """Read what botocore made of an error reply."""
        error = response.get("Error", {})
        meta = response.get("ResponseMetadata", {})
        status = int(meta.get("HTTPStatusCode", 500))
        code = str(error.get("Code", ""))
        return cls(
            "" if code.isdigit() else code,  # botocore puts the status there for want of a body
            status,
            str(error.get("Message") or ""),
            {k: v for k, v in error.items() if k not in _ENVELOPE and isinstance(v, str)},
            dict(meta.get("HTTPHeaders", {})),
        )

    @property
    def broken(self) -> bool:
        """Whether it says that the service, not the request, is at fault."""
        return self.status >= 500 and self.status != HTTPStatus.NOT_IMPLEMENTED

    @property
    def undone(self) -> bool:
        """Whether nothing was begun, so that any request may be repeated."""
        return self.code in _SLOW or self.status == HTTPStatus.TOO_MANY_REQUESTS

    @property
    def passing(self) -> bool:
        """Whether the same request may go well in a moment."""
        return self.broken or self.code == "OperationAborted"

    def error(self, *, own_key: bool) -> GatewayError:
        """The gateway's error that stands for it.

        Args:
            own_key: whether the gateway's own key signed the request.
        """
        if own_key and self.code in _OF_THE_KEY:
            return InternalError(
                f"the storage service refuses the gateway's own key: {self.code}; check "
                "upstream.access_key, upstream.secret_key, upstream.region and this host's clock"
            )
        if self.undone:
            return BusyError(self.message, retry_after_s=self._retry_after_s())
        if self.status == HTTPStatus.SERVICE_UNAVAILABLE:
            return unavailable(self.message, self._retry_after_s())
        headers = {name: self.headers[name] for name in _KEPT_HEADERS if name in self.headers}
        row = _KNOWN.get(self.code)
        if row is not None and row.status == self.status and self.status < 500:
            return ClientError(row, self.message, details=self.details, headers=headers)
        return GatewayError(self._foreign(), details=self.details, headers=headers)

    def _foreign(self) -> ForeignCode:
        known = {one.value: one for one in HTTPStatus if one >= HTTPStatus.BAD_REQUEST}
        status = known.get(self.status, HTTPStatus.BAD_GATEWAY)
        code = self.code or status.phrase.replace(" ", "")
        return ForeignCode(code, status.value, self.message or status.phrase)

    def _retry_after_s(self) -> int:
        text = self.headers.get("retry-after", "")
        return int(text) if text.isdigit() else _RETRY_AFTER_S


def silent(what: str, error: BaseException) -> GatewayError:
    """503 for a service that can't be reached, fell silent, or hung up; `what` was being done."""
    return unavailable(f"The storage service failed: {what}: {type(error).__name__}.", 1)


def refused(what: str) -> ClientError:
    """501 for what the service can't do; the text names it and what would be needed."""
    return ClientError(S3Code.NOT_IMPLEMENTED, f"The storage service upstream can't {what}.")
