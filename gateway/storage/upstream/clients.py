"""The door to aiobotocore: one client for each key that signs upstream. `Any` stops behind it.

A client has connections of its own. Where each user's key signs, as many clients as
`upstream.max_users` stay open; the one that was idle longest makes room.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from aiobotocore.config import AioConfig
from aiobotocore.session import AioSession, get_session
from botocore import UNSIGNED

from gateway.config.upstream import UpstreamConfig
from gateway.errors import BusyError, InternalError
from gateway.storage.acting import GATEWAY, Actor

RAW_BODY = "RawBody"
"""The key under which a reply has its document word for word, of operations in `_DOCUMENTS`."""

_DOCUMENTS = frozenset(
    {
        "GetBucketCors",
        "GetBucketOwnershipControls",
        "GetBucketPolicy",
        "GetBucketTagging",
        "GetObjectLockConfiguration",
        "GetPublicAccessBlock",
    }
)

_OWN = GATEWAY.access_key or ""  # the gateway's, configured or from botocore's chain
_NOBODY = " "  # no signature

Secrets = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class Raw:
    """What goes into a request as it is, past botocore's shapes: headers, and a document."""

    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


RAW: ContextVar[Raw | None] = ContextVar("raw", default=None)
"""Of the call that is being made."""


@dataclass(slots=True)
class _Open:
    """A client, its secret as it was made with, and how many calls it is in."""

    client: Any
    secret: str
    closing: AsyncExitStack = field(repr=False)
    calls: int = 0


class Clients:
    """Lends clients.

    Args:
        secrets: the secret of an access key of the gateway's; asked where users' own keys sign.
    """

    def __init__(self, config: UpstreamConfig, secrets: Secrets) -> None:
        self._config = config
        self._secrets = secrets
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._outdated: list[_Open] = []
        self._lock = asyncio.Lock()

    @property
    def own_key(self) -> bool:
        """Whether the gateway's own key signs."""
        return self._config.credentials == "service"

    @asynccontextmanager
    async def lend(self, actor: Actor) -> AsyncIterator[Any]:
        """The client that signs for an actor, for one call.

        Raises:
            BusyError: all clients are in use (`upstream.max_users`).
            InternalError: the actor's key is gone.
        """
        async with self._lock:
            entry = await self._get(self._signer(actor))
        entry.calls += 1
        try:
            yield entry.client
        finally:
            entry.calls -= 1

    async def close(self) -> None:
        """Close every connection."""
        for entry in (*self._open.values(), *self._outdated):
            await entry.closing.aclose()
        self._open.clear()
        self._outdated.clear()

    async def _get(self, access_key: str) -> _Open:
        secret = self._secret(access_key)
        entry = self._open.get(access_key)
        if entry is not None and entry.secret == secret:
            self._open.move_to_end(access_key)
            return entry
        if entry is None:
            await self._make_room()
        made = await self._connect(access_key, secret)
        if entry is not None:  # its secret was changed; calls may still be under way
            self._outdated.append(entry)
        self._open[access_key] = made
        return made

    def _signer(self, actor: Actor) -> str:
        """The access key that signs for an actor, or one of the two that are none."""
        if self.own_key:
            return _OWN
        return _NOBODY if actor.access_key is None else actor.access_key

    def _secret(self, access_key: str) -> str:
        if access_key in (_OWN, _NOBODY):
            return self._config.secret_key
        secret = self._secrets(access_key)
        if secret is None:
            raise InternalError("an access key was removed while its request ran")
        return secret

    async def _make_room(self) -> None:
        if len(self._open) < self._config.max_users:
            return
        idle = next((key for key, entry in self._open.items() if not entry.calls), None)
        if idle is None:
            raise BusyError("The keys of too many users are in use (upstream.max_users).")
        await self._open.pop(idle).closing.aclose()

    async def _connect(self, access_key: str, secret: str) -> _Open:
        config = self._config
        keys: dict[str, str] = {}
        signature: dict[str, object] = {}
        if access_key == _NOBODY:
            signature["signature_version"] = UNSIGNED
        elif access_key != _OWN:
            keys = _keys(access_key, secret)
        elif config.access_key:
            keys = _keys(config.access_key, secret)
        closing = AsyncExitStack()
        client = await closing.enter_async_context(
            _session().create_client(
                "s3",
                endpoint_url=config.endpoint or None,
                region_name=config.region,
                config=_botocore_config(config, signature),
                **keys,
            )
        )
        _hook(client)
        return _Open(client, secret, closing)


@cache
def _session() -> AioSession:
    """One for the process: it keeps botocore's models, which take a while to read."""
    return get_session()


def _keys(access_key: str, secret: str) -> dict[str, str]:
    return {"aws_access_key_id": access_key, "aws_secret_access_key": secret}


def _botocore_config(config: UpstreamConfig, signature: Mapping[str, object]) -> AioConfig:
    """Retries, checks and checksums are ours, so that each is done once and within our limits."""
    return AioConfig(
        connect_timeout=config.connect_timeout_s,
        read_timeout=config.stall_timeout_s,
        max_pool_connections=config.max_connections,
        retries={"total_max_attempts": 1},
        parameter_validation=False,
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        s3={"addressing_style": config.addressing, "payload_signing_enabled": False},
        **signature,
    )


def _hook(client: Any) -> None:
    events = client.meta.events
    events.register("before-call.s3", _put_raw)
    events.register("before-send.s3", _expect_nothing)
    events.register("before-parse.s3", _keep_raw)


def _put_raw(params: dict[str, Any], **_: object) -> None:
    raw = RAW.get()
    if raw is not None:
        params["headers"].update(raw.headers)
        if raw.body is not None:
            params["body"] = raw.body


def _expect_nothing(request: Any, **_: object) -> None:
    """No 100-continue: it costs a round trip, and some services never answer it."""
    if "Expect" in request.headers:
        del request.headers["Expect"]


def _keep_raw(
    operation_model: Any,
    response_dict: Mapping[str, Any],
    customized_response_dict: dict[str, Any],
    **_: object,
) -> None:
    if operation_model.name in _DOCUMENTS:
        customized_response_dict[RAW_BODY] = response_dict["body"]
