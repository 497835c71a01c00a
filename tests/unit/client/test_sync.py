"""The synchronous face: same answers, from another thread's loop, and interruption is safe."""

from __future__ import annotations

import asyncio
import inspect
import threading

import pytest
from botocore.credentials import Credentials
from fake_rc_gateway import Rig

from gateway.client import Client, CredentialsError, S3Error, SyncClient, TransferPath
from gateway.client import client as client_module
from gateway.client import sync as sync_module


def test_methods__of_both_faces__take_the_same_arguments() -> None:
    for name, method in inspect.getmembers(Client, inspect.isfunction):
        if not name.startswith("_"):
            twin = inspect.signature(getattr(SyncClient, name))
            assert twin.parameters == inspect.signature(method).parameters, name
    assert inspect.signature(SyncClient.__init__) == inspect.signature(Client.__init__)


async def test_transfers__from_a_program_without_a_loop__work(rig: Rig) -> None:
    def program() -> tuple[bytes, TransferPath, str]:
        options = {"credentials": Credentials("A", "s"), "region_name": "r"}
        with SyncClient(endpoint_url=rig.url, rdma="never", **options) as client:
            client.put_from("b", "k", b"hello")
            got = client.get_into("b", "k", buffer := bytearray(5))
            with pytest.raises(S3Error, match="NotFound"):
                client.head("b", "none")
            return bytes(buffer), got.path, client.head("b", "k").metadata["color"]

    assert await asyncio.to_thread(program) == (b"hello", TransferPath.HTTP, "blue")


async def test_enter__without_credentials__leaves_no_thread(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise CredentialsError("none")

    monkeypatch.setattr(client_module, "load_signer", refuse)

    def program() -> None:
        with pytest.raises(CredentialsError), SyncClient(endpoint_url=rig.url):
            pass

    await asyncio.to_thread(program)
    assert "s3rdma" not in {thread.name for thread in threading.enumerate()}


def test_run__interrupted__ends_the_work_before_it_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []
    begun = threading.Event()

    async def work() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("work")

    class InterruptedOnce(threading.Event):
        interrupted = False

        def wait(self, timeout: float | None = None) -> bool:
            if not self.interrupted:
                self.interrupted = True
                begun.wait()
                raise KeyboardInterrupt
            return super().wait(timeout)

    thread = sync_module.LoopThread()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(sync_module.threading, "Event", InterruptedOnce)
            with pytest.raises(KeyboardInterrupt):
                thread.run(work())
        assert ended == ["work"]
    finally:
        thread.stop()
