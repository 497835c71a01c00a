"""The one path of every request, in order, and nothing else.

head → route → verify → authorise → perform → render; an error leaves from where it is raised and
becomes a reply here. Requests that steer an RDMA transfer turn off after `verify`, and come back
through `authorise` and `perform` for the operation that they carry.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from gateway.auth.credentials import CredentialStore
from gateway.auth.policy import authorise
from gateway.auth.principal import Principal
from gateway.auth.sigv4 import Verified, verify
from gateway.config import HttpConfig, HttpLimits
from gateway.errors import GatewayError, InternalError
from gateway.rdma import cuobject
from gateway.rdma.hipobj_rc import HipobjService
from gateway.s3.body import Body
from gateway.s3.context import Context
from gateway.s3.dispatch import perform
from gateway.s3.operations import Operation
from gateway.s3.results import Reply
from gateway.s3.route import route
from gateway.storage.port import Storage
from gateway.web.render import HttpReply, render, render_error
from gateway.wire.request import RequestHead

_log = logging.getLogger(__name__)

OpenBody = Callable[[Verified], Body]


def steers_rdma(head: RequestHead) -> bool:
    """Whether a request carries an RDMA transfer's control, and no object of its own."""
    return HipobjService.handles(head.raw_path)


def permit(principal: Principal, operation: Operation) -> None:
    """Ask policy about an operation. Raises ClientError(AccessDenied)."""
    bucket, key = getattr(operation, "bucket", None), getattr(operation, "key", None)
    authorise(principal, operation.action, bucket, key)


@dataclass(frozen=True, slots=True)
class Verbs:
    """The end of the path: an authorised operation done, whichever way its bytes come."""

    storage: Storage
    region: str
    limits: HttpLimits

    async def perform(self, operation: Operation, body: Body | None, principal: Principal) -> Reply:
        context = Context(
            storage=self.storage,
            principal=principal,
            region=self.region,
            limits=self.limits,
            authorise=partial(permit, principal),
        )
        return await perform(operation, body, context)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """What the path leads through.

    Attributes:
        rdma: shares `verbs`.
        clock: POSIX seconds, for signatures.
    """

    config: HttpConfig
    credentials: CredentialStore
    verbs: Verbs
    rdma: HipobjService
    clock: Callable[[], float]

    async def respond(self, head: RequestHead, open_body: OpenBody, request_id: str) -> HttpReply:
        """Answer a request; every outcome but cancellation is a reply.

        Args:
            head: as received.
            open_body: makes the body, once it is known how it is signed.
            request_id: for the reply and the log.
        """
        try:
            reply = await self._answer(head, open_body)
            return render(reply, method=head.method, request_id=request_id)
        except GatewayError as error:
            if isinstance(error, InternalError):
                _log.error("%s", error.cause, exc_info=error)
            failure = error
        except Exception as error:  # noqa: BLE001  (a bug must not take the connection along)
            _log.exception("a bug: %s", type(error).__name__)
            failure = InternalError(repr(error))
        return render_error(
            failure, method=head.method, resource=head.raw_path, request_id=request_id
        )

    async def _answer(self, head: RequestHead, open_body: OpenBody) -> Reply:
        if steers_rdma(head):
            return await self.rdma.handle(head, self._verify(head))
        operation = route(head, self.config.domains, self.config.limits)
        verified = self._verify(head)
        permit(verified.principal, operation)
        body = open_body(verified)
        return await cuobject.answer(
            head,
            operation,
            verified,
            lambda: self.verbs.perform(operation, body, verified.principal),
        )

    def _verify(self, head: RequestHead) -> Verified:
        return verify(head, self.credentials, self.clock(), self.config.region)
