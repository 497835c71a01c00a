"""The whole path from a head to a reply, over a storage, with RDMA off."""

from __future__ import annotations

from collections.abc import Callable

from request_heads import STORE

from gateway.config import HttpConfig, HttpLimits, RdmaConfig
from gateway.rdma.service import RdmaService
from gateway.s3.route import route
from gateway.storage.port import Storage
from gateway.web.pipeline import Pipeline, Verbs


def pipeline_over(
    storage: Storage, clock: Callable[[], float], limits: HttpLimits | None = None
) -> Pipeline:
    """A pipeline whose keys are `request_heads.STORE`'s; `clock` tells POSIX seconds."""
    config = HttpConfig(limits=limits or HttpLimits())
    verbs = Verbs(storage, config.region, config.limits, STORE)
    rdma = RdmaService(
        None, RdmaConfig(), route=route, authorise=verbs.authorise, perform=verbs.perform
    )
    return Pipeline(config, verbs, rdma, clock)
