from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.app.errors import StartError
from gateway.app.share import share_of
from gateway.config import Config, LaneClass, LimitsConfig, RdmaConfig


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_share_of__all_workers__add_up_to_the_whole(workers):
    config = Config(workers=workers)
    shares = [share_of(config, number) for number in range(workers)]
    names = ("connections", "connections_per_key", "connection_staging_bytes", "max_waiting")
    for name in (*names, "max_sessions", "max_sessions_per_key"):
        assert sum(getattr(one.rdma, name) for one in shares) == getattr(config.rdma, name)
    for place, whole in enumerate(config.rdma.lanes):
        assert {one.rdma.lanes[place].length_bytes for one in shares} == {whole.length_bytes}
        assert sum(one.rdma.lanes[place].count for one in shares) == whole.count
    assert sum(one.http.limits.max_connections for one in shares) == 1024
    assert sum(one.store.max_staged for one in shares) == config.store.max_staged
    assert {one.rdma.max_transfer_bytes for one in shares} == {config.rdma.max_transfer_bytes}


def test_share_of__limits_of_a_key__are_divided_and_never_none():
    limits = LimitsConfig(requests_per_s=3, bytes_per_s=5, staging_bytes=1)
    shares = [share_of(Config(workers=3, limits=limits), number).limits for number in range(3)]
    assert {one.requests_per_s for one in shares} == {1}
    assert {(one.bytes_per_s, one.staging_bytes) for one in shares} == {(2, 1)}


def test_share_of__more_workers_than_lanes_of_a_class__names_it():
    config = Config(workers=3, rdma=RdmaConfig(lanes=(LaneClass(2, 4096),)))
    with pytest.raises(StartError, match=r"rdma\.lanes \(2x4KiB\) is 2, too little for 3 workers"):
        share_of(config, 2)


def test_share_of__one_soft_address__refused():
    config = Config(workers=2, rdma=RdmaConfig(soft_address="127.0.0.9"))
    with pytest.raises(StartError, match=r"rdma\.soft_address is one address"):
        share_of(config, 0)


def test_share_of__no_connections_and_no_rdma__stay_none():
    off = Config(workers=2, rdma=RdmaConfig(fabric="off", soft_address="127.0.0.9"))
    assert share_of(off, 1).rdma == off.rdma
    none = replace(off, rdma=RdmaConfig(connections=0))
    assert share_of(none, 1).rdma.connections == 0
