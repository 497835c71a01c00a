"""Failed completions in words."""

from __future__ import annotations

import pytest

from gateway.dataplane import binding
from gateway.dataplane.failures import CAUSES, CompletionError
from gateway.dataplane.port import CompletionClass
from gateway.errors import S3Code


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("RETRY_EXC_ERR", "wrong PSN"),
        ("RETRY_EXC_ERR", "UDP 4791"),
        ("REM_ACCESS_ERR", "rkey"),
        ("LOC_LEN_ERR", "rdma.receive_sge"),
        ("RNR_RETRY_EXC_ERR", "no receive"),
        ("WR_FLUSH_ERR", "earlier failure"),
        ("SOMETHING_NEW", "ibv_poll_cq"),
    ],
)
def test_completion_error__each_status__names_likely_causes(name: str, hint: str) -> None:
    error = CompletionError("write", name, CompletionClass.REMOTE, "ERR")
    assert hint in error.message
    assert f"{name} (remote), QP in ERR" in error.message
    assert error.code is S3Code.RDMA_TRANSFER_FAILED


def test_causes__names__are_the_cores_own() -> None:
    known = {binding.wc_name(status) for status in range(64)}
    assert known >= CAUSES.keys()
