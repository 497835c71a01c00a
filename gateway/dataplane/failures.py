"""Failed completions in plain words: whose fault, and what to look at. Pure; no rkey comes here."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from types import MappingProxyType

from gateway.dataplane.port import CompletionClass
from gateway.errors import BusyError, GatewayError, InternalError, TransportError

# From IBTA volume 1 section 11.6.2, ibv_poll_cq(3), and PROTOCOL.md section 5.
CAUSES: Mapping[str, str] = MappingProxyType(
    {
        "LOC_LEN_ERR": (
            "a message longer than the receive's buffer or the port's max_msg_sz; "
            "try rdma.receive_sge = false"
        ),
        "LOC_QP_OP_ERR": "the device could not execute the work request: length, lkey or QP state",
        "LOC_PROT_ERR": "our own memory is not registered for this access",
        "LOC_ACCESS_ERR": "the peer's request did not fit the rights of our memory",
        "WR_FLUSH_ERR": "the queue pair was in error already: an earlier failure, or the peer left",
        "BAD_RESP_ERR": "an answer that does not fit the request: two peers on one queue pair?",
        "REM_INV_REQ_ERR": (
            "the peer's queue pair does not admit the operation: its access flags, or its receive "
            "is too short"
        ),
        "REM_ACCESS_ERR": "the peer's rkey, address, length or access flags do not cover the write",
        "REM_OP_ERR": "the peer could not complete the operation: its receive's memory or device",
        "RETRY_EXC_ERR": (
            "no ACK from the peer: wrong PSN, DLID 0, GID or VLAN, path MTU, a firewall on "
            "UDP 4791, or the peer's queue pair is gone"
        ),
        "RNR_RETRY_EXC_ERR": "the peer posted no receive for the immediate",
        "RESP_TIMEOUT_ERR": "the peer did not answer in time",
        "FATAL_ERR": "the device failed; see dmesg",
        "GENERAL_ERR": "the device failed; see dmesg",
    }
)


MEMLOCK_REMEDY = (
    "raise the limit on locked memory: ulimit -l unlimited, LimitMEMLOCK=infinity in the systemd "
    "unit, --ulimit memlock=-1 for a container, or grant CAP_IPC_LOCK"
)


def not_pinned(error: OSError) -> GatewayError:
    """Why a client's buffer could not be registered, or no queue pair be had for it."""
    match error.errno:
        case errno.ENOSPC:
            return BusyError(
                "All RDMA sessions (rdma.max_sessions) or buffers of one are in use; retry."
            )
        case errno.ENOMEM | errno.EPERM | errno.EAGAIN:
            return TransportError(
                f"The buffer can't be pinned ({error.strerror}): {MEMLOCK_REMEDY}."
            )
        case _:
            return TransportError(f"The buffer can't be registered: {error.strerror}.")


class DamagedError(InternalError):
    """What an extent has in its file is not what was stored; the rest of it was not sent."""


class CompletionError(TransportError):
    """A work request failed on the wire.

    Attributes:
        blame: by wc.status alone; the other fields of a failed completion are undefined.
        wc_name: the status without its prefix ("RETRY_EXC_ERR").
        qp_state: as asked of the device after the failure ("ERR").
    """

    def __init__(self, doing: str, wc_name: str, blame: CompletionClass, qp_state: str) -> None:
        causes = CAUSES.get(wc_name, "see the status in ibv_poll_cq(3)")
        super().__init__(
            f"RDMA {doing} failed: {wc_name} ({blame.value}), QP in {qp_state}; look at: {causes}."
        )
        self.blame = blame
        self.wc_name = wc_name
        self.qp_state = qp_state
