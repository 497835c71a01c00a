"""A gateway of sockets, files and a fabric in the test's own process, so that it can be counted."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from botocore.credentials import Credentials as Keys

from gateway.auth.credentials import Credentials, CredentialStore
from gateway.client import Client
from gateway.config import Config, HttpConfig, RdmaConfig, StoreConfig
from gateway.dataplane.engine import EngineFabric, open_fabric
from gateway.rdma.service import RdmaService
from gateway.s3.route import route
from gateway.storage.store import Store
from gateway.web.pipeline import Pipeline, Verbs
from gateway.web.server import Server

KEY = ("AKWHOLE", "whole-secret")


@dataclass(frozen=True)
class WholeGateway:
    """What a test may look into while clients use it."""

    endpoint: str
    fabric: EngineFabric
    rdma: RdmaService

    def client(self, device: str) -> Client:
        """One that must go by RDMA."""
        return Client(
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            credentials=Keys(*KEY),
            rdma="require",
            device=device,
        )


@asynccontextmanager
async def whole_gateway(directory: Path, rdma_config: RdmaConfig) -> AsyncIterator[WholeGateway]:
    """Serve until the context ends; the pipeline is wired as the composition root wires it."""
    config = Config(
        http=HttpConfig(host="127.0.0.1", port=0),
        store=StoreConfig(root=directory),
        rdma=rdma_config,
    )
    async with AsyncExitStack() as stack:
        storage = Store(config.store)
        await storage.start()
        stack.push_async_callback(storage.stop)
        fabric = open_fabric(config.rdma, arena=True)
        stack.push_async_callback(fabric.close)
        verbs = Verbs(
            storage,
            config.http.region,
            config.http.limits,
            CredentialStore([Credentials(*KEY)]),
        )
        rdma = RdmaService(
            fabric,
            config.rdma,
            route=lambda head: route(head, config.http.domains, config.http.limits),
            authorise=verbs.authorise,
            perform=verbs.perform,
        )
        stack.push_async_callback(rdma.stop, config.rdma.drain_timeout_s)
        server = Server(config.http, Pipeline(config.http, verbs, rdma, time.time))
        port = await server.start()
        stack.push_async_callback(server.stop)
        yield WholeGateway(f"http://127.0.0.1:{port}", fabric, rdma)
