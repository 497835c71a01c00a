"""Several workers on one port: started, watched, replaced, and stopped together.

This process serves nothing. It holds the port and the workers' inboxes, so both outlive any worker,
and it has one thread and no event loop, so that it may fork at any time.
"""

from __future__ import annotations

import logging
import math
import os
import select
import selectors
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from enum import Enum, auto

from gateway.app.errors import StartError
from gateway.app.process import end_with_parent, say
from gateway.app.share import share_of
from gateway.app.systemd import ServiceManager
from gateway.app.worker import END_OF_TEXT, STUCK_S, Line, Place
from gateway.config import Config
from gateway.web.handover import Mailboxes

_log = logging.getLogger(__name__)

_RESTART_DELAY_S = 0.1  # doubles with each death of a worker that did not last
_MAX_RESTART_DELAY_S = 5.0
_STEADY_S = 1.0  # a worker that lived as long is no sign of a loop
_KILL_MARGIN_S = 10.0  # beyond the graces that the configuration gives
_FAILED = "!"  # before a worker's reason for not starting

Work = Callable[[Config, Place], None]
"""What a worker does, until it is told to stop. Raises StartError."""


class _State(Enum):
    STARTING = auto()
    SERVING = auto()
    RESTING = auto()  # dead; another starts at `due_s`


@dataclass(slots=True)
class _Worker:
    """One of the places for workers, and who has it."""

    number: int
    inbox: socket.socket
    state: _State = _State.RESTING
    pid: int = 0
    due_s: float = math.inf
    since_s: float = 0.0
    beat_s: float = 0.0
    said: bytes = b""
    delay_s: float = _RESTART_DELAY_S


class Supervisor:
    """Starts the workers in `run`, and returns from it when all have ended.

    Args:
        config: of the gateway as a whole; `workers` of 2 or more.
        work: what each worker does with its share.
        manager: of services, which the workers don't talk to.

    Raises:
        StartError: the port is taken, or something is too little to be shared.
    """

    def __init__(self, config: Config, work: Work, manager: ServiceManager) -> None:
        self._work = work
        self._manager = manager
        self._beat_at_s = math.inf
        self._stopping = False
        self._failure = ""
        self._announced = False
        self._kill_at_s = math.inf
        self._grace_s = config.http.limits.shutdown_grace_s + 2 * config.rdma.drain_timeout_s
        with ExitStack() as stack:
            config = _with_port(config, stack)
            self._shares = [share_of(config, number) for number in range(config.workers)]
            pairs = [socket.socketpair(type=socket.SOCK_DGRAM) for _ in self._shares]
            self._sending = [stack.enter_context(sending) for sending, _ in pairs]
            self._workers = [
                _Worker(number, stack.enter_context(inbox))
                for number, (_, inbox) in enumerate(pairs)
            ]
            self._selector = stack.enter_context(selectors.DefaultSelector())
            self._stack = stack.pop_all()

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT, and return when all workers ended. Raises StartError."""
        with self._stack:
            self._listen_to_signals()
            self._start(self._workers[0])  # alone: it makes or migrates what all share
            while not (self._stopping and self._all_dead()):
                for key, _ in self._selector.select(self._next_s()):
                    key.data()
                now_s = time.monotonic()
                self._start_due(now_s)
                self._kill_late(now_s)
                self._beat(now_s)
        if self._failure:
            raise StartError(self._failure)

    # Signals

    def _listen_to_signals(self) -> None:
        reading, writing = socket.socketpair()
        self._stack.enter_context(reading)
        self._stack.enter_context(writing)
        writing.setblocking(False)
        signal.set_wakeup_fd(writing.fileno())
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        self._selector.register(
            reading, selectors.EVENT_READ, lambda: self._signalled(reading.recv(64))
        )

    def _signalled(self, numbers: bytes) -> None:
        for number in numbers:
            if number == signal.SIGHUP:
                self._manager.reloading()
                self._send(signal.SIGHUP)
                self._manager.ready("serving")
            elif self._stopping:
                self._send(signal.SIGKILL)  # asked twice
            else:
                self._stop()

    def _stop(self) -> None:
        self._stopping = True
        self._manager.stopping()
        self._kill_at_s = time.monotonic() + self._grace_s + _KILL_MARGIN_S
        self._send(signal.SIGTERM)

    def _send(self, number: signal.Signals) -> None:
        for worker in self._workers:
            if worker.state is not _State.RESTING:
                os.kill(worker.pid, number)

    def _kill_late(self, now_s: float) -> None:
        """End what does not end by itself, and what hangs."""
        if now_s >= self._kill_at_s:
            _log.error("workers are still there %g s after their grace: killed", _KILL_MARGIN_S)
            self._kill_at_s = math.inf
            self._send(signal.SIGKILL)
        for worker in self._workers:
            if worker.state is _State.SERVING and now_s - worker.beat_s >= STUCK_S:
                _log.error("worker %d has been stuck for %g s: killed", worker.number, STUCK_S)
                worker.beat_s = math.inf
                os.kill(worker.pid, signal.SIGKILL)

    def _beat(self, now_s: float) -> None:
        if now_s >= self._beat_at_s:
            self._manager.beat()
            self._beat_at_s = now_s + self._manager.beat_interval_s

    # Workers

    def _start(self, worker: _Worker) -> None:
        reading, writing = os.pipe()
        supervisor = os.getpid()
        worker.pid = os.fork()
        if worker.pid == 0:
            os.close(reading)
            self._be(worker, Line(writing), supervisor)
        os.close(writing)
        os.set_blocking(reading, False)
        worker.state, worker.since_s, worker.due_s = _State.STARTING, time.monotonic(), math.inf
        worker.said = b""
        self._selector.register(reading, selectors.EVENT_READ, lambda: self._heard(worker, reading))
        ended = os.pidfd_open(worker.pid)
        self._selector.register(ended, selectors.EVENT_READ, lambda: self._died(worker, ended))

    def _be(self, worker: _Worker, line: Line, supervisor: int) -> None:
        """Be a worker, in the forked process. Never returns."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            self._selector.close()
            end_with_parent(supervisor)
            boxes = Mailboxes(worker.number, worker.inbox, self._sending)
            self._work(self._shares[worker.number], Place(boxes, line))
            code = 0
        except StartError as error:
            line.say(f"{_FAILED}{error}")
        except BaseException:  # noqa: BLE001  (nothing of the supervisor's may run in this process)
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)

    def _heard(self, worker: _Worker, pipe: int) -> None:
        """A worker serves, or says why it doesn't, or beats; the end of the pipe is its own."""
        fresh = os.read(pipe, select.PIPE_BUF)
        if not fresh:
            self._selector.unregister(pipe)
            os.close(pipe)
        worker.beat_s = time.monotonic()
        if worker.state is not _State.STARTING:
            return
        worker.said += fresh
        said, ended, _ = worker.said.partition(END_OF_TEXT)
        text = said.decode()
        if not ended:
            return
        if text.startswith(_FAILED):
            self._failure = self._failure or text.removeprefix(_FAILED)
        else:
            worker.state = _State.SERVING
            self._serving(text)

    def _serving(self, text: str) -> None:
        if self._announced or self._stopping:
            return
        for worker in self._workers:
            if worker.state is _State.RESTING:
                self._start(worker)
        if all(worker.state is _State.SERVING for worker in self._workers):
            self._announced = True
            say(text)
            self._manager.ready(text.splitlines()[-1])
            if self._manager.beat_interval_s:
                self._beat_at_s = time.monotonic()

    def _died(self, worker: _Worker, pidfd: int) -> None:
        self._selector.unregister(pidfd)
        os.close(pidfd)
        _, status = os.waitpid(worker.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        worker.state = _State.RESTING
        if self._stopping:
            return
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit status {code}"
        if not self._announced:
            self._failure = self._failure or f"worker {worker.number} ended {how}"
            self._stop()
            return
        now_s = time.monotonic()
        steady = now_s - worker.since_s >= _STEADY_S
        worker.delay_s = (
            _RESTART_DELAY_S if steady else min(2 * worker.delay_s, _MAX_RESTART_DELAY_S)
        )
        worker.due_s = now_s + worker.delay_s
        _log.error(
            "worker %d (process %d) ended %s; another starts in %g s",
            *(worker.number, worker.pid, how, worker.delay_s),
        )

    def _start_due(self, now_s: float) -> None:
        for worker in self._workers:
            if worker.due_s <= now_s and not self._stopping:
                self._start(worker)

    def _all_dead(self) -> bool:
        return all(worker.state is _State.RESTING for worker in self._workers)

    def _next_s(self) -> float | None:
        """How long nothing is due; None for ever."""
        stuck_s = (
            worker.beat_s + STUCK_S for worker in self._workers if worker.state is _State.SERVING
        )
        due_s = (worker.due_s for worker in self._workers)
        next_s = min(self._kill_at_s, self._beat_at_s, *stuck_s, *due_s)
        return None if next_s == math.inf else max(0.0, next_s - time.monotonic())


def _with_port(config: Config, stack: ExitStack) -> Config:
    """The port bound, not listened on: the kernel gives connections to the workers alone."""
    http = config.http
    family = socket.AF_INET6 if ":" in http.host else socket.AF_INET
    try:
        with _bound(family, (http.host, http.port), share=False) as probe:
            # A second gateway could share the port, too, and would get half of the requests.
            port = probe.getsockname()[1]
        stack.enter_context(_bound(family, (http.host, port), share=True))
    except OSError as error:
        raise StartError(
            f"can't listen on {http.host} port {http.port}: {error.strerror or error}"
        ) from error
    return replace(config, http=replace(http, port=port))


def _bound(family: int, address: tuple[str, int], *, share: bool) -> socket.socket:
    sock = socket.socket(family)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, int(share))
        sock.bind(address)
    except OSError:
        sock.close()
        raise
    return sock
