"""Sessions and connections as the operator sees them: nothing here lets anybody use one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LiveSession:
    """A session of hipobj-rc-v2, or a connection, now.

    Attributes:
        id: its first digits, as in the log.
        kind: "session" or "connection".
        owner: the access key; "" for a connection that no key has used yet.
        state: of a session its state; of a connection "busy" or "idle".
        what: of a session what it moves: ``GET bucket/key``.
        size_bytes: of that.
        running: requests that use it now.
        idle_s: of a connection; 0 while it is busy.
    """

    id: str
    kind: str
    owner: str
    state: str
    what: str = ""
    size_bytes: int = 0
    running: int = 0
    idle_s: float = 0.0
