"""A supervisor whose workers only say who they are: `python idle_workers.py HOW`, run by tests.

A worker writes its process id to each connection. HOW is what goes wrong, or "well".
"""

from __future__ import annotations

import os
import signal
import socket
import sys

from gateway.app import supervisor
from gateway.app.errors import StartError
from gateway.app.process import say
from gateway.app.supervisor import Supervisor
from gateway.app.systemd import ServiceManager
from gateway.app.worker import Place
from gateway.config import Config, HttpConfig, HttpLimits, RdmaConfig

LIMITS = HttpLimits(shutdown_grace_s=0.1)
CONFIG = Config(
    http=HttpConfig(host="127.0.0.1", port=0, limits=LIMITS),
    rdma=RdmaConfig(fabric="off", drain_timeout_s=0.1),
    workers=2,
)


def work(config: Config, place: Place) -> None:
    how = sys.argv[1]
    if how == "refuses" and place.number == 1:
        raise StartError("no disk")
    if how == "crashes" and place.number == 1:
        os._exit(3)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    signal.signal(signal.SIGHUP, lambda *_: say(f"hangup {place.number}"))
    if how == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind((config.http.host, config.http.port))
    listener.listen()
    place.line.say(f"serving on {config.http.port}")
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(str(os.getpid()).encode())


if __name__ == "__main__":
    if sys.argv[1] == "stuck":  # these workers never beat; else nobody waits so long
        supervisor.STUCK_S = 0.2
    try:
        Supervisor(CONFIG, work, ServiceManager(os.environ)).run()
    except StartError as error:
        sys.exit(str(error))
