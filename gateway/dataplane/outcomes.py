"""What C's events and errnos mean, as the errors that the rooms above know."""

from __future__ import annotations

import errno
import os

from gateway.dataplane import binding
from gateway.dataplane.binding import Event
from gateway.dataplane.failures import CompletionError, DamagedError
from gateway.dataplane.port import CompletionClass
from gateway.errors import ClientError, InternalError, S3Code, TransportError

_BLAME = (
    CompletionClass.LOCAL,  # DP_CLASS_NONE: a failure without a class can only be ours
    CompletionClass.LOCAL,
    CompletionClass.REMOTE,
    CompletionClass.TRANSPORT,
    CompletionClass.FLUSH,
)


def raise_failure(event: Event, doing: str) -> None:
    """The error that an event tells of, if it tells of one; `doing` is for its text."""
    match -event.status:
        case 0:
            return
        case errno.EREMOTEIO:
            raise CompletionError(
                doing,
                binding.wc_name(event.wc_status),
                _BLAME[binding.wc_class(event.wc_status)],
                binding.qp_state_name(event.qp_state),
            )
        case errno.ECANCELED:
            raise TransportError(f"RDMA {doing}: the session was closed meanwhile.")
        case errno.ENETDOWN:
            raise TransportError(f"RDMA {doing}: the device or its port went away.")
        case errno.EPROTO:
            raise TransportError(
                f"RDMA {doing}: the device reported data that it had not placed, as Linux's "
                "Soft-RoCE does for answers out of turn, lost (raise net.core.netdev_max_backlog), "
                "broken or forged; where peers can't be trusted, use an RDMA card or "
                'rdma.fabric = "soft".'
            )
        case errno.EBADMSG:
            raise DamagedError(f"{doing}: stored bytes do not have their checksum")
        case errno.ENODATA:
            raise InternalError(f"{doing}: a stored file is shorter than its index says")
        case code:
            raise InternalError(f"{doing}: {os.strerror(code)}")


def refusal(doing: str, error: OSError) -> Exception:
    """A verb or a check refused at once, before anything was posted."""
    match error.errno:
        case errno.EMSGSIZE:
            return ClientError(
                S3Code.INVALID_ARGUMENT, "The RDMA buffer is shorter than the transfer."
            )
        case errno.EACCES | errno.ENETUNREACH:
            return ClientError(
                S3Code.NOT_IMPLEMENTED,
                "The RDMA peer's address is loopback where this side's is not, or the reverse, or "
                "it is in none of rdma.allowed_networks.",
            )
        case errno.EBUSY | errno.ENOTCONN:
            return RuntimeError(f"out of order: {doing}")
        case _:
            return TransportError(f"The device refused to {doing}: {error.strerror}.")
