"""A TCP proxy before a gateway that sees each request begin: the moment to do something to it.

It changes no byte. A request is known by its first line, which clients send at the beginning of a
write; what only looks like one inside a body is none, because bodies here are random.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

_LINE = re.compile(rb"(?:GET|PUT|POST|HEAD|DELETE) \S+ HTTP/1\.1\r\n")


@dataclass
class Watch:
    """What has passed.

    Attributes:
        endpoint: where clients find the proxy.
        requests: "METHOD target", in order.
        before: called with each, before the gateway sees it.
    """

    endpoint: str
    before: Callable[[str], None]
    requests: list[str] = field(default_factory=list)

    def seen(self, start: str) -> list[str]:
        return [one for one in self.requests if one.startswith(start)]


@contextmanager
def watching_proxy(
    address: tuple[str, int], before: Callable[[str], None] = lambda _request: None
) -> Iterator[Watch]:
    """In threads of this process, until the context ends."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        host, port = listening.getsockname()
        watch = Watch(f"http://{host}:{port}", before)
        opened: list[socket.socket] = []
        threads = [threading.Thread(target=_accept, args=(listening, address, watch, opened))]
        threads[0].start()
        try:
            yield watch
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            threads[0].join()
            for one in opened:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)


def _accept(
    listening: socket.socket,
    address: tuple[str, int],
    watch: Watch,
    opened: list[socket.socket],
) -> None:
    relays: list[threading.Thread] = []
    with suppress(OSError):
        while True:
            client, _ = listening.accept()
            server = socket.create_connection(address)
            opened += client, server
            ends = (client, server, watch), (server, client, None)
            relays += (threading.Thread(target=_relay, args=one) for one in ends)
            for relay in relays[-2:]:
                relay.start()
    for one in opened:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
    for relay in relays:
        relay.join()
    for one in opened:
        one.close()


def _relay(source: socket.socket, target: socket.socket, watch: Watch | None) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            line = _LINE.match(data) if watch else None
            if watch and line:
                request = line[0].decode().removesuffix(" HTTP/1.1\r\n")
                watch.requests.append(request)
                watch.before(request)
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
