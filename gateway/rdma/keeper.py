"""Carries out what the session machine asks for: tasks to run and stop, lanes to give back.

The one place in ``rdma`` that starts tasks. A session's data phase is a task of its own, so that a
CANCEL, a vanished client and a shutdown stop it in the same way; giving a lane back is another, so
that no one's cancellation can stop it half-way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from gateway.errors import ClientError, GatewayError, S3Code
from gateway.rdma.aio import Alarm, Background
from gateway.rdma.sessions import Effect, Event, OrderT, Session, SessionTable, State

ResultT = TypeVar("ResultT")

log = logging.getLogger(__name__)


class Keeper(Generic[OrderT]):
    """The sessions of one protocol, and everything that runs on their behalf.

    Args:
        table: the machine; nobody else moves its sessions.
        clock: seconds, monotonic.
    """

    def __init__(self, table: SessionTable[OrderT], clock: Callable[[], float]) -> None:
        self._table = table
        self._clock = clock
        self._background = Background()
        self._moving: dict[str, asyncio.Task[Any]] = {}
        self._alarm = Alarm(clock, self.expire)

    @contextmanager
    def opening(self, owner: str) -> Iterator[Session[OrderT]]:
        """A place for the length of a PREPARE; given up on leaving, unless it was offered.

        Raises BusyError: a cap is reached.
        """
        session = self._table.admit(owner)
        try:
            yield session
        finally:
            if session.state is State.OPENING:
                self.apply(session, Event.END)

    def offer(self, session: Session[OrderT], order: OrderT) -> None:
        """Let its owner claim it, until prepare_timeout_s from now. Raises BusyError: shutdown."""
        self._table.offer(session, order, self._clock())
        self._watch()

    async def claim(
        self,
        session_id: str,
        owner: str,
        work: Callable[[Session[OrderT]], Coroutine[Any, Any, ResultT]],
    ) -> ResultT:
        """READY: run the session's data phase to its end, and return what it returns.

        Where the caller is cancelled (its client is gone), so is the data phase; but what is past
        recall goes on in the background, and its lane comes back in any case.

        Raises:
            ClientError: NoSuchRDMASession, also where it was cancelled while it ran;
                RDMASessionClaimed.
        """
        session = self._table.claim(session_id, owner, self._clock())
        task = self._background.start(work(session))
        self._moving[session.id] = task
        task.add_done_callback(lambda _: self._moved(session))
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            self.apply(session, Event.CANCEL)
            raise
        if task.cancelled():
            raise ClientError(
                S3Code.NO_SUCH_RDMA_SESSION, "The RDMA session was cancelled; nothing was stored."
            )
        return task.result()

    def cancel(self, session_id: str, owner: str) -> None:
        """Give a session up; nothing happens where there is none, or it is another key's."""
        session = self._table.owned(session_id, owner)
        if session is not None:
            self.apply(session, Event.CANCEL)

    def apply(self, session: Session[OrderT], event: Event) -> None:
        """Tell the machine, and do what follows."""
        for effect in self._table.apply(session, event):
            match effect:
                case Effect.ABORT:
                    self._moving[session.id].cancel()
                case Effect.CLOSE:
                    self._background.start(self._give_back(session))
                case Effect.FORGET:
                    log.debug("rdma session=%s gone, %d left", session.id[:8], len(self._table))

    def expire(self) -> None:
        """Drop the offers that nobody claimed in time."""
        for session in self._table.expired(self._clock()):
            log.warning("rdma session=%s expired without READY", session.id[:8])
            self.apply(session, Event.EXPIRE)
        self._watch()

    async def stop(self, grace_s: float) -> None:
        """Admit no one, stop what can be stopped, and wait until every lane is back.

        Args:
            grace_s: how long; a lane that is not back by then is the fabric's to close.
        """
        for session in self._table.stop():
            self.apply(session, Event.STOP)
        self._watch()
        await self._background.idle(self._clock, grace_s)
        if self._background:
            log.error("rdma: %d sessions did not end within %.1f s", len(self._table), grace_s)

    def census(self) -> Mapping[State, int]:
        return self._table.census()

    def limit_staging(self, max_bytes: int) -> None:
        """Bound what each key's sessions may borrow, from now on; 0 is no limit."""
        self._table.max_staging_bytes = max_bytes

    def sessions(self) -> Iterator[Session[OrderT]]:
        return iter(self._table)

    def _moved(self, session: Session[OrderT]) -> None:
        del self._moving[session.id]
        self.apply(session, Event.END)

    async def _give_back(self, session: Session[OrderT]) -> None:
        lane, session.lane = session.lane, None
        try:
            if lane is not None:
                await lane.close()
        except GatewayError:
            log.exception("rdma session=%s: its lane did not close", session.id[:8])
        finally:
            self.apply(session, Event.CLOSED)

    def _watch(self) -> None:
        self._alarm.set(self._table.next_deadline_s())
