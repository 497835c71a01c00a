"""Ids of sessions and connections: the worker that holds one, and what nobody can foresee."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable

from gateway.wire.rdma_headers import SESSION
from gateway.wire.rdma_headers import TOKEN as RDMA_TOKEN
from gateway.wire.request import RequestHead

MAX_WORKERS = 256
_RANDOM_BYTES = 15
_ID = re.compile(r"(?:rc:)?([0-9a-f]{2})[0-9a-f]{30}(?::|$)", re.IGNORECASE)


def session_ids(worker: int) -> Callable[[], str]:
    """The source of one worker's ids: its number in two hex digits, then 120 random bits.

    Args:
        worker: 0..255.
    """
    return lambda: f"{worker:02x}{secrets.token_hex(_RANDOM_BYTES)}"


new_session_id = session_ids(0)
"""The ids of the only worker."""


def worker_named(head: RequestHead) -> int | None:
    """Whose session or connection a request is about; None where it names none.

    Nothing is verified here: whoever answers the request does that.
    """
    named = head.get(SESSION) or head.get(RDMA_TOKEN)
    found = _ID.match(named) if named else None
    return int(found[1], 16) if found else None
