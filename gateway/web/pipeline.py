"""The one path of every request, in order, and nothing else.

head → route → verify → authorise → perform → render; an error leaves from where it is raised and
becomes a reply here. A POST form is verified by its fields, and is a PutObject from there on.
Requests that steer an RDMA transfer turn off after `verify`, and come back through `authorise` and
`perform` for the operation that they carry.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from gateway.auth.credentials import CredentialStore
from gateway.auth.post_policy import prove_form
from gateway.auth.principal import ANONYMOUS, Principal
from gateway.auth.sigv4 import Verified, verify
from gateway.config import HttpConfig, HttpLimits
from gateway.errors import ClientError, GatewayError, InternalError, S3Code
from gateway.rdma.service import RdmaService
from gateway.s3 import access, cors
from gateway.s3.body import Body, Form
from gateway.s3.context import Context
from gateway.s3.dispatch import perform
from gateway.s3.notes import note_operation, note_reply, note_signer
from gateway.s3.operations import CreateBucket, Operation, PostObject
from gateway.s3.post_object import form_fields, posted, read_post
from gateway.s3.requester import Requester
from gateway.s3.results import Reply
from gateway.s3.route import bucket_of, route
from gateway.storage.acting import ACTOR, Actor
from gateway.storage.port import Storage
from gateway.telemetry import trail
from gateway.telemetry.traces import span
from gateway.web.limiter import Limiter, unlimited
from gateway.web.render import HttpReply, render, render_error
from gateway.wire.request import RequestHead

_log = logging.getLogger(__name__)

OpenBody = Callable[[Verified], Body]


def steers_rdma(head: RequestHead) -> bool:
    """Whether a request carries an RDMA transfer's control, and no object of its own."""
    return RdmaService.handles(head.raw_path)


def act_for(principal: Principal) -> None:
    """Tell the storage whom it is asked for, from here on."""
    ACTOR.set(Actor(principal.access_key, principal.user_id))


@dataclass(frozen=True, slots=True)
class Verbs:
    """The end of the path: an operation authorised and done, whichever way its bytes come."""

    storage: Storage
    region: str
    limits: HttpLimits
    credentials: CredentialStore

    async def authorise(self, requester: Requester, operation: Operation) -> None:
        """Ask policy about a request's own operation. Raises AccessDenied, NoSuchBucket."""
        await self._ask_policy(requester, operation)
        if not isinstance(operation, CreateBucket):
            bucket: str | None = getattr(operation, "bucket", None)
            await access.expect_owner(bucket, requester.expected_owner, self.storage)

    async def _ask_policy(self, requester: Requester, operation: Operation) -> None:
        act_for(requester.principal)
        await access.authorise(operation, requester, self.storage)

    async def perform(self, operation: Operation, body: Body | None, requester: Requester) -> Reply:
        """Do what was authorised."""
        act_for(requester.principal)
        context = Context(
            storage=self.storage,
            requester=requester,
            region=self.region,
            limits=self.limits,
            authorise=partial(self._ask_policy, requester),
            accounts=self.credentials.accounts,
        )
        with span("storage"):
            return await perform(operation, body, context)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """What the path leads through.

    Attributes:
        rdma: shares `verbs`.
        clock: POSIX seconds, for signatures.
        limiter: what an access key may use.
    """

    config: HttpConfig
    verbs: Verbs
    rdma: RdmaService
    clock: Callable[[], float]
    limiter: Limiter = field(default_factory=unlimited)

    async def respond(self, head: RequestHead, open_body: OpenBody, request_id: str) -> HttpReply:
        """Answer a request; every outcome but cancellation is a reply.

        Args:
            head: as received.
            open_body: makes the body, once it is known how it is signed.
            request_id: for the reply and the log.
        """
        reply = await self._outcome(head, open_body, request_id)
        bucket = bucket_of(head, self.config.domains)
        further = await cors.cross_origin_headers(head, bucket, self.verbs.storage)
        return replace(reply, headers=(*reply.headers, *further)) if further else reply

    async def _outcome(self, head: RequestHead, open_body: OpenBody, request_id: str) -> HttpReply:
        """The reply, whether it went well or not."""
        try:
            reply = await self._answer(head, open_body)
            note_reply(trail(), reply)
            return render(reply, method=head.method, request_id=request_id)
        except GatewayError as error:
            if isinstance(error, InternalError):
                _log.error("%s", error.cause, exc_info=error)
            failure = error
        except Exception as error:  # noqa: BLE001  (a bug must not take the connection along)
            _log.exception("a bug: %s", type(error).__name__)
            failure = InternalError(repr(error))
        known = trail()
        known.error, known.limit = failure.code.code, getattr(failure, "limit", "")
        return render_error(
            failure, method=head.method, resource=head.raw_path, request_id=request_id
        )

    async def _answer(self, head: RequestHead, open_body: OpenBody) -> Reply:
        now_s = self.clock()
        act_for(ANONYMOUS)
        known = trail()
        if steers_rdma(head):
            known.operation, known.path = RdmaService.name_of(head.raw_path), "rdma"
            verified = self._verify(head, now_s)
            return await self.rdma.handle(head, verified, Requester.of(head, verified, now_s))
        if head.method == cors.PREFLIGHT_METHOD:
            known.operation = "PreflightRequest"
            bucket = bucket_of(head, self.config.domains)
            return await cors.preflight(head, bucket, self.verbs.storage)
        operation = route(head, self.config.domains, self.config.limits)
        note_operation(known, operation)
        verified = self._verify(head, now_s)
        requester = Requester.of(head, verified, now_s)
        if isinstance(operation, PostObject):
            return await self._post(head, operation, requester, open_body(verified))
        await self.verbs.authorise(requester, operation)
        body = open_body(verified)
        return await self.rdma.answer(
            head,
            operation,
            verified,
            lambda by_rdma: self.verbs.perform(operation, by_rdma or body, requester),
        )

    async def _post(
        self, head: RequestHead, operation: PostObject, requester: Requester, body: Body
    ) -> Reply:
        """A form proves itself by its fields; from there on its file is a PutObject's body."""
        if not isinstance(body, Form):
            raise InternalError("a POST form was opened as another body")
        if not requester.principal.anonymous:
            raise ClientError(
                S3Code.INVALID_ARGUMENT, "Only one auth mechanism allowed; sign the form's policy."
            )
        fields = form_fields(await body.read_fields(), operation.bucket)
        credentials, limits = self.verbs.credentials, self.config.limits
        proof = prove_form(fields, credentials, requester.now_s, self.config.region)
        self._admit(proof.principal, "")
        post = read_post(fields, head, operation.bucket, limits)
        requester = Requester.of_form(requester, post.head, proof)
        await self.verbs.authorise(requester, post.put)
        body.hold_to(post.head, proof.size)
        return posted(await self.verbs.perform(post.put, body, requester), post)

    def _verify(self, head: RequestHead, now_s: float) -> Verified:
        with span("auth"):
            verified = verify(head, self.verbs.credentials, now_s, self.config.region)
        how = "QueryString" if verified.presigned else "AuthHeader"
        self._admit(verified.principal, how)
        return verified

    def _admit(self, principal: Principal, how: str) -> None:
        """Let a proved requester in, unless its key has used what it may."""
        note_signer(trail(), principal, how)
        self.limiter.admit(principal.access_key or "")
