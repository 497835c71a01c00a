"""One call to the service upstream: bounded in time, repeated where that is safe, and counted.

A call ends in the service's reply or in a `GatewayError`. What may be repeated: anything that was
surely not begun (no connection, SlowDown), and after that only what is the same done twice.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

import aiohttp
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    PartialCredentialsError,
)
from botocore.parsers import ResponseParserError

from gateway.config.upstream import UpstreamConfig
from gateway.errors import GatewayError, InternalError
from gateway.storage.acting import ACTOR
from gateway.storage.upstream.breaker import Breaker
from gateway.storage.upstream.clients import RAW, Clients, Raw, Secrets
from gateway.storage.upstream.faults import Answer, silent
from gateway.storage.upstream.outgoing import OutgoingBody
from gateway.storage.upstream.retry import Backoff

Reply = dict[str, Any]
"""A reply's fields, as botocore names them."""

SILENCES = (BotoCoreError, ResponseParserError, aiohttp.ClientError, TimeoutError, OSError)
"""What is raised where no whole reply came, or none that can be read."""
_NEVER_SENT = (EndpointConnectionError, ConnectTimeoutError)

_log = logging.getLogger(__name__)


class CallError(Exception):
    """A call that failed; `error` is for the client.

    Attributes:
        answer: the service's own, None where none came.
    """

    def __init__(self, error: GatewayError, answer: Answer | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.answer = answer


class Service:
    """The S3 service upstream. One event loop.

    Args:
        secrets: of the gateway's access keys.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        config: UpstreamConfig,
        secrets: Secrets,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.config = config
        self.breaker = Breaker(config.breaker_failures, config.breaker_open_s, clock)
        self.backoff = Backoff(config.attempts, config.backoff_s, config.max_backoff_s)
        self._clients = Clients(config, secrets)

    @property
    def own_key(self) -> bool:
        """Whether the gateway's own key signs, and not each user's."""
        return self._clients.own_key

    async def close(self) -> None:
        await self._clients.close()

    async def call(
        self,
        operation: str,
        *,
        repeatable: bool = True,
        raw: Raw | None = None,
        body: OutgoingBody | None = None,
        **parameters: Any,
    ) -> Reply:
        """Have the service do something.

        Args:
            operation: as botocore's client names the method.
            repeatable: whether doing it twice is the same as once.
            raw: what goes into the request as it is.
            body: of the request; sent again from its start where it can be.
            parameters: as botocore names them.

        Raises:
            GatewayError: any of the service's errors; 503 where it does not answer.
        """
        try:
            return await self.attempt(
                operation, repeatable=repeatable, raw=raw, body=body, **parameters
            )
        except CallError as failed:
            raise failed.error from failed.__cause__

    async def attempt(
        self,
        operation: str,
        *,
        repeatable: bool = True,
        raw: Raw | None = None,
        body: OutgoingBody | None = None,
        **parameters: Any,
    ) -> Reply:
        """The same for callers that look at the service's own answer. Raises CallError."""
        tries = 0
        while True:
            tries += 1
            try:
                return await self._once(operation, raw, body, parameters)
            except CallError as failed:
                delay_s = self.backoff.delay_s(tries)
                if delay_s is None or not _may_repeat(failed, repeatable, body):
                    raise
                _log.info("%s upstream: %s; again in %.2f s", operation, failed, delay_s)
            await asyncio.sleep(delay_s)

    async def _once(
        self,
        operation: str,
        raw: Raw | None,
        body: OutgoingBody | None,
        parameters: dict[str, Any],
    ) -> Reply:
        try:
            self.breaker.admit()
        except GatewayError as error:
            raise CallError(error) from error
        token = RAW.set(raw)
        try:
            reply = await self._send(operation, body, parameters)
        except ClientError as error:
            answer = Answer.of(error.response)
            self._judge(answer)
            raise CallError(answer.error(own_key=self.own_key), answer) from error
        except (NoCredentialsError, PartialCredentialsError) as error:
            self.breaker.abandoned()
            raise CallError(_no_credentials()) from error
        except SILENCES as error:
            self.breaker.failed()
            raise CallError(silent(operation, error)) from error
        except BaseException:
            self.breaker.abandoned()
            raise
        finally:
            RAW.reset(token)
        self.breaker.succeeded()
        return reply

    async def _send(
        self, operation: str, body: OutgoingBody | None, parameters: dict[str, Any]
    ) -> Reply:
        loop, limit_s = asyncio.get_running_loop(), self.config.call_timeout_s
        async with self._clients.lend(ACTOR.get()) as client, asyncio.timeout(limit_s) as deadline:
            if body is not None:
                body.begin(lambda: deadline.reschedule(loop.time() + limit_s))
                parameters = {**parameters, "Body": body if len(body) else b""}
            reply: Reply = await getattr(client, operation)(**parameters)
            return reply

    def _judge(self, answer: Answer) -> None:
        if answer.broken and not answer.undone:
            self.breaker.failed()
        else:
            self.breaker.succeeded()


def _may_repeat(failed: CallError, repeatable: bool, body: OutgoingBody | None) -> bool:
    if body is not None and not body.again:
        return False
    if failed.answer is not None:
        return failed.answer.undone or (repeatable and failed.answer.passing)
    cause = failed.__cause__
    return isinstance(cause, _NEVER_SENT) or (repeatable and isinstance(cause, SILENCES))


def _no_credentials() -> InternalError:
    return InternalError(
        "no key for the storage service: set upstream.access_key and upstream.secret_key, or give "
        "botocore's chain one"
    )
