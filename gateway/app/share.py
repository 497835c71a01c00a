"""One worker's share of what the configuration grants the gateway as a whole."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gateway.app.errors import StartError
from gateway.config import Config, LaneClass, LimitsConfig, RdmaConfig


@dataclass(frozen=True, slots=True)
class Share:
    """The cut for one worker; the cuts of all add up to the whole.

    Attributes:
        worker: its number, from 0.
        count: of workers.
    """

    worker: int
    count: int

    def of(self, name: str, whole: int) -> int:
        """Its part of a number. Raises StartError: not everyone would get one."""
        part = whole // self.count + (self.worker < whole % self.count)
        if not part:
            raise StartError(
                f"{name} is {whole}, too little for {self.count} workers: "
                f"set it to at least {self.count}, or take fewer workers"
            )
        return part

    def lane_class(self, lanes: LaneClass) -> LaneClass:
        """Its part of a class of lanes."""
        return replace(lanes, count=self.of(f"rdma.lanes ({lanes})", lanes.count))


def share_of(config: Config, worker: int) -> Config:
    """What worker number `worker` of `config.workers` may use.

    What one access key may use is divided, too: the kernel deals connections out by their hash, so
    a client with several has a share of each worker. Threads are not divided: they wait for disks.

    Raises:
        StartError: there is too little of something for that many workers.
    """
    if config.workers == 1:
        return config
    share = Share(worker, config.workers)
    limits = replace(
        config.http.limits,
        max_connections=share.of("http.limits.max_connections", config.http.limits.max_connections),
    )
    return replace(
        config,
        http=replace(config.http, limits=limits),
        rdma=_rdma(config.rdma, share),
        limits=_limits(config.limits, config.workers),
        store=replace(
            config.store, max_staged=share.of("store.max_staged", config.store.max_staged)
        ),
    )


def _limits(config: LimitsConfig, count: int) -> LimitsConfig:
    """Rounded up: 0 would be no limit."""
    return replace(
        config,
        requests_per_s=config.requests_per_s / count,
        bytes_per_s=-(-config.bytes_per_s // count),
        staging_bytes=-(-config.staging_bytes // count),
    )


def _rdma(config: RdmaConfig, share: Share) -> RdmaConfig:
    if config.fabric == "off":
        return config
    if config.soft_address:
        raise StartError(
            "rdma.soft_address is one address, and each worker needs its own: "
            "leave it empty, or take one worker"
        )
    slots = share.of(
        "rdma.connection_staging_bytes, in slots of rdma.slot_bytes,",
        config.connection_staging_bytes // config.slot_bytes,
    )
    return replace(
        config,
        lanes=tuple(share.lane_class(one) for one in config.lanes),
        connections=share.of("rdma.connections", config.connections) if config.connections else 0,
        connection_staging_bytes=slots * config.slot_bytes,
        connections_per_key=share.of("rdma.connections_per_key", config.connections_per_key),
        max_sessions=share.of("rdma.max_sessions", config.max_sessions),
        max_sessions_per_key=share.of("rdma.max_sessions_per_key", config.max_sessions_per_key),
        max_waiting=share.of("rdma.max_waiting", config.max_waiting),
    )
