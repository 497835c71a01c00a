"""Connections where the gateway makes none."""

from __future__ import annotations

from pathlib import Path

from gateway_process import gateway_process
from rc_client import CONNECT, DISCONNECT, Address, Desk, connect_headers

NOBODY = Address(0x1234, 0x00ABCD, bytes.fromhex("00000000000000000000ffff7f090909"))


def test_connect__rdma_is_off__is_unsupported(tmp_path: Path) -> None:
    with gateway_process(tmp_path, "--rdma-fabric", "off") as process:
        desk = Desk.of(process)
        answer = desk.ask("POST", CONNECT, connect_headers(NOBODY))
        assert answer.status == 501
        assert answer.headers["x-amz-rdma-protocol-status"] == "unsupported"
        gone = desk.ask("POST", DISCONNECT, {"x-amz-rdma-session": "0" * 32})
        assert gone.status == 204
