"""One client for each key that signs upstream; nothing is sent here."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from botocore import UNSIGNED

from gateway.config.upstream import UpstreamConfig
from gateway.errors import BusyError, InternalError
from gateway.storage.acting import Actor
from gateway.storage.upstream.clients import Clients

A, B, C = (Actor(name, name) for name in "ABC")
SECRETS = {"A": "secret-a", "B": "secret-b", "C": "secret-c"}


@pytest.fixture
async def clients() -> AsyncIterator[Clients]:
    config = UpstreamConfig(endpoint="http://127.0.0.1:1", credentials="user", max_users=2)
    made = Clients(config, SECRETS.get)
    yield made
    await made.close()


def key_of(client: Any) -> tuple[str, str]:
    found = client._request_signer._credentials
    return found.access_key, found.secret_key


async def test_lend__users_own_keys__each_signs_with_his(clients: Clients) -> None:
    async with clients.lend(A) as first, clients.lend(B) as second, clients.lend(A) as again:
        assert key_of(first) == ("A", "secret-a")
        assert key_of(second) == ("B", "secret-b")
        assert again is first


async def test_lend__one_more_than_may_be_open__the_idle_one_goes(clients: Clients) -> None:
    async with clients.lend(A) as first:
        async with clients.lend(B):
            pass
        async with clients.lend(C):
            pass
        async with clients.lend(A) as again:
            assert again is first


async def test_lend__all_are_in_use__busy(clients: Clients) -> None:
    async with AsyncExitStack() as stack:
        for actor in (A, B):
            await stack.enter_async_context(clients.lend(actor))
        with pytest.raises(BusyError, match="max_users"):
            await stack.enter_async_context(clients.lend(C))


async def test_lend__anonymous__signs_nothing(clients: Clients) -> None:
    async with clients.lend(Actor()) as client:
        assert client.meta.config.signature_version is UNSIGNED


async def test_lend__key_is_gone__internal_error(clients: Clients) -> None:
    with pytest.raises(InternalError):
        async with clients.lend(Actor("X", "X")):
            pass


async def test_lend__secret_was_changed__signs_with_the_new_one(
    clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with clients.lend(A) as before:
        monkeypatch.setitem(SECRETS, "A", "another")
        async with clients.lend(A) as after:
            assert key_of(after) == ("A", "another")
            assert after is not before


async def test_lend__the_gateway_s_own_key__signs_for_everybody() -> None:
    config = UpstreamConfig(
        endpoint="http://127.0.0.1:1", access_key="own", secret_key="own-secret"
    )
    clients = Clients(config, SECRETS.get)
    async with clients.lend(A) as first, clients.lend(B) as second:
        assert first is second
        assert key_of(first) == ("own", "own-secret")
    await clients.close()
