"""The life of a hipobj-rc-v2 session (PROTOCOL section 2), without I/O: events in, effects out.

::

    OPENING ──OFFER──► PREPARED ──READY──► MOVING ──ARRIVED──► COMMITTING
       │                  │                  │                     │
      END          CANCEL EXPIRE STOP       END                   END
       └──────────────────┴────────┬─────────┴─────────────────────┘
                                   ▼
                                CLOSING ──CLOSED──► forgotten

Every session leaves through CLOSING, and CLOSING is entered once, with one CLOSE effect: so its
lane is given back exactly once, whatever happens. Times are numbers that the caller's clock gives.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from types import MappingProxyType
from typing import Generic, TypeVar

from gateway.dataplane.port import Lane
from gateway.errors import BusyError, ClientError, S3Code
from gateway.wire.session_id import new_session_id

OrderT = TypeVar("OrderT")


class State(Enum):
    """Where a session is."""

    OPENING = auto()  # PREPARE is being judged: a place is taken, perhaps a lane too
    PREPARED = auto()  # offered to its owner; waits for READY until its deadline
    MOVING = auto()  # claimed by a READY: the data phase runs
    COMMITTING = auto()  # every byte is here and is being stored: past recall
    CLOSING = auto()  # over: the lane is on its way back


class Event(Enum):
    """What can happen to it."""

    OFFER = auto()  # PREPARE is answered with 200
    READY = auto()  # its owner claims it
    ARRIVED = auto()  # the data phase of a PUT is done
    CANCEL = auto()  # its owner gives it up
    EXPIRE = auto()  # its deadline has passed
    STOP = auto()  # the gateway shuts down
    END = auto()  # the request that held it is done, well or not
    CLOSED = auto()  # its lane is back


class Effect(Enum):
    """What is to be done about it, by whoever told the machine."""

    REFUSE_UNKNOWN = auto()  # 404: to this peer there is no such session
    REFUSE_CLAIMED = auto()  # 409: another READY has it
    ABORT = auto()  # stop the data phase that runs; END follows from it
    CLOSE = auto()  # give the lane back; CLOSED follows from it
    FORGET = auto()  # free the place


_Step = tuple[State, tuple[Effect, ...]]

TRANSITIONS: Mapping[tuple[State, Event], _Step] = MappingProxyType(
    {
        (State.OPENING, Event.OFFER): (State.PREPARED, ()),
        (State.OPENING, Event.END): (State.CLOSING, (Effect.CLOSE,)),
        (State.OPENING, Event.STOP): (State.OPENING, ()),
        (State.OPENING, Event.READY): (State.OPENING, (Effect.REFUSE_UNKNOWN,)),
        (State.OPENING, Event.CANCEL): (State.OPENING, ()),
        (State.PREPARED, Event.READY): (State.MOVING, ()),
        (State.PREPARED, Event.CANCEL): (State.CLOSING, (Effect.CLOSE,)),
        (State.PREPARED, Event.EXPIRE): (State.CLOSING, (Effect.CLOSE,)),
        (State.PREPARED, Event.STOP): (State.CLOSING, (Effect.CLOSE,)),
        (State.MOVING, Event.READY): (State.MOVING, (Effect.REFUSE_CLAIMED,)),
        (State.MOVING, Event.CANCEL): (State.MOVING, (Effect.ABORT,)),
        (State.MOVING, Event.STOP): (State.MOVING, (Effect.ABORT,)),
        (State.MOVING, Event.ARRIVED): (State.COMMITTING, ()),
        (State.MOVING, Event.END): (State.CLOSING, (Effect.CLOSE,)),
        (State.COMMITTING, Event.READY): (State.COMMITTING, (Effect.REFUSE_CLAIMED,)),
        (State.COMMITTING, Event.CANCEL): (State.COMMITTING, ()),
        (State.COMMITTING, Event.STOP): (State.COMMITTING, ()),
        (State.COMMITTING, Event.END): (State.CLOSING, (Effect.CLOSE,)),
        (State.CLOSING, Event.READY): (State.CLOSING, (Effect.REFUSE_UNKNOWN,)),
        (State.CLOSING, Event.CANCEL): (State.CLOSING, ()),
        (State.CLOSING, Event.STOP): (State.CLOSING, ()),
        (State.CLOSING, Event.CLOSED): (State.CLOSING, (Effect.FORGET,)),
    }
)


@dataclass(slots=True, eq=False)
class Session(Generic[OrderT]):
    """One session. Only its table changes `state` and `deadline_s`.

    Attributes:
        id: 32 hex digits, 120 random bits: knowing it is not enough, its owner must sign.
        owner: the access key that prepared it.
        lane: what it borrowed, from PREPARE until CLOSED.
        order: what was agreed at PREPARE; None while OPENING.
        deadline_s: when a PREPARED session dies; infinite in every other state.
    """

    id: str
    owner: str
    lane: Lane | None = None
    order: OrderT | None = None
    state: State = State.OPENING
    deadline_s: float = math.inf


@dataclass(slots=True)
class SessionTable(Generic[OrderT]):
    """All sessions of the gateway, bounded in number, whole and per access key.

    Args:
        max_sessions: RdmaConfig.max_sessions, > 0.
        max_sessions_per_key: RdmaConfig.max_sessions_per_key, > 0.
        prepare_timeout_s: how long an offer stands without READY.
        new_id: the source of session ids.
        max_staging_bytes: LimitsConfig.staging_bytes; a key that holds as much gets no further
            session. 0 is no limit.
    """

    max_sessions: int
    max_sessions_per_key: int
    prepare_timeout_s: float
    new_id: Callable[[], str] = new_session_id
    max_staging_bytes: int = 0
    _sessions: dict[str, Session[OrderT]] = field(default_factory=dict)
    _owned: Counter[str] = field(default_factory=Counter)
    _stopped: bool = False

    def admit(self, owner: str) -> Session[OrderT]:
        """Take a place for a PREPARE, before any of its work is done.

        Raises:
            BusyError: a cap is reached (the text names the setting) or the gateway shuts down.
        """
        if self._stopped:
            raise BusyError("The gateway is shutting down and takes no new RDMA sessions.")
        if len(self._sessions) >= self.max_sessions:
            raise BusyError(
                f"All {self.max_sessions} RDMA sessions (rdma.max_sessions) are in use.",
                limit="rdma.max_sessions",
            )
        if self._owned[owner] >= self.max_sessions_per_key:
            raise BusyError(
                f"This access key holds all {self.max_sessions_per_key} RDMA sessions that one "
                "key may (rdma.max_sessions_per_key).",
                limit="rdma.max_sessions_per_key",
            )
        held_bytes = self.staging_bytes(owner)
        if self.max_staging_bytes and held_bytes >= self.max_staging_bytes:
            raise BusyError(
                f"This access key's sessions hold {held_bytes} bytes of RDMA staging; it may hold "
                f"{self.max_staging_bytes} (limits.staging_bytes).",
                limit="limits.staging_bytes",
            )
        session = Session[OrderT](self.new_id(), owner)
        if session.id in self._sessions:
            raise ValueError("the session id source repeats itself")
        self._sessions[session.id] = session
        self._owned[owner] += 1
        return session

    def staging_bytes(self, owner: str) -> int:
        """What a key's sessions have borrowed."""
        lanes = (one.lane for one in self._sessions.values() if one.owner == owner)
        return sum(lane.buffer.length_bytes for lane in lanes if lane is not None)

    def offer(self, session: Session[OrderT], order: OrderT, now_s: float) -> None:
        """PREPARE succeeded: its owner may claim the session until `prepare_timeout_s` from now.

        Raises:
            BusyError: the gateway began to shut down meanwhile.
        """
        if self._stopped:
            raise BusyError("The gateway is shutting down and takes no new RDMA sessions.")
        self.apply(session, Event.OFFER)
        session.order = order
        session.deadline_s = now_s + self.prepare_timeout_s

    def claim(self, session_id: str, owner: str, now_s: float) -> Session[OrderT]:
        """READY: at most one per session gets it.

        Raises:
            ClientError: NoSuchRDMASession where it is unknown, over, past its deadline or another
                key's, with one text for all (no oracle); RDMASessionClaimed for a second READY.
        """
        session = self._sessions.get(session_id)
        if session is None or session.owner != owner or session.deadline_s <= now_s:
            raise ClientError(S3Code.NO_SUCH_RDMA_SESSION)
        effects = self.apply(session, Event.READY)
        if Effect.REFUSE_UNKNOWN in effects:
            raise ClientError(S3Code.NO_SUCH_RDMA_SESSION)
        if Effect.REFUSE_CLAIMED in effects:
            raise ClientError(S3Code.RDMA_SESSION_CLAIMED)
        return session

    def owned(self, session_id: str, owner: str) -> Session[OrderT] | None:
        """The session of that id where it is that key's; for CANCEL, which never says no."""
        session = self._sessions.get(session_id)
        return session if session is not None and session.owner == owner else None

    def expired(self, now_s: float) -> tuple[Session[OrderT], ...]:
        """Offers whose deadline has passed; the caller applies EXPIRE to each."""
        return tuple(s for s in self._sessions.values() if s.deadline_s <= now_s)

    def next_deadline_s(self) -> float:
        """When the next offer expires; infinite where none stands."""
        return min((s.deadline_s for s in self._sessions.values()), default=math.inf)

    def stop(self) -> tuple[Session[OrderT], ...]:
        """Admit nobody any more; the caller applies STOP to each session that is left."""
        self._stopped = True
        return tuple(self._sessions.values())

    def apply(self, session: Session[OrderT], event: Event) -> tuple[Effect, ...]:
        """Move a session on, and say what is to be done about it.

        Raises:
            ValueError: the event can't happen in that state: a caller's bug, never a peer's.
        """
        step = TRANSITIONS.get((session.state, event))
        if step is None:
            raise ValueError(f"{event} can't happen to a session that is {session.state}")
        session.state, effects = step
        if session.state is not State.PREPARED:
            session.deadline_s = math.inf
        if Effect.FORGET in effects:
            self._forget(session)
        return effects

    def _forget(self, session: Session[OrderT]) -> None:
        del self._sessions[session.id]
        self._owned[session.owner] -= 1
        if not self._owned[session.owner]:
            del self._owned[session.owner]

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session[OrderT]]:
        return iter(tuple(self._sessions.values()))

    def census(self) -> Mapping[State, int]:
        """How many sessions are in each state, zeros included."""
        count = Counter(session.state for session in self._sessions.values())
        return {state: count[state] for state in State}
