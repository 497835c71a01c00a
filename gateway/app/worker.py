"""A worker's place among several, and its line to the supervisor."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass

from gateway.web.handover import Mailboxes

END_OF_TEXT = b"\0"
BEAT = b"."
BEAT_INTERVAL_S = 2.0
STUCK_S = 30.0  # without a beat: the loop hangs, and with it every transfer of the worker


@dataclass(frozen=True, slots=True)
class Line:
    """The pipe from a worker to the supervisor: a text once, then a beat now and then.

    What the pipe can't take is dropped: a supervisor that doesn't read has worse troubles.
    """

    fd: int

    def say(self, text: str) -> None:
        """Once: that it serves, and what the operator reads of it; or why it does not."""
        os.write(self.fd, text.encode() + END_OF_TEXT)

    def beat(self) -> None:
        """The loop runs."""
        os.write(self.fd, BEAT)

    def keep_beating(self) -> Callable[[], None]:
        """Beat from the running loop from now on; returns what ends it."""
        loop = asyncio.get_running_loop()
        timer: asyncio.TimerHandle

        def again() -> None:
            nonlocal timer
            self.beat()
            timer = loop.call_later(BEAT_INTERVAL_S, again)

        again()
        return lambda: timer.cancel()  # noqa: PLW0108  (of the timer there is then)


@dataclass(frozen=True, slots=True)
class Place:
    """What a worker needs to know of the others.

    Attributes:
        mailboxes: its own inbox, and where the others' are.
        line: to the supervisor.
    """

    mailboxes: Mailboxes
    line: Line

    @property
    def number(self) -> int:
        """From 0."""
        return self.mailboxes.own
