"""The admin listener: metrics, health, status. On a port of its own; it serves no object.

It asks nobody who they are, so it is bound to loopback, or asks for client certificates. Reading is
all that can be done here.
"""

from __future__ import annotations

import json
import logging
import ssl
from dataclasses import dataclass
from importlib import resources
from ipaddress import ip_address
from types import MappingProxyType

from aiohttp import web

from gateway import __version__
from gateway.config import AdminConfig
from gateway.telemetry.registry import Registry
from gateway.web.admin_readiness import Readiness
from gateway.web.admin_status import Status
from gateway.web.listener import Listener

_log = logging.getLogger(__name__)

_IDLE_TIMEOUT_S = 30.0  # between two requests of a connection
_CUT_S = 0.1  # for a handler that runs when the gateway stops
_LOCAL_NAMES = frozenset({"localhost", ""})

_HEADERS = MappingProxyType(
    {
        "Cache-Control": "no-store",
        "Content-Security-Policy": (
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        ),
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "Server": f"s3rdma/{__version__}",
        "X-Content-Type-Options": "nosniff",
    }
)
_PAGE = MappingProxyType(
    {
        "/": ("index.html", "text/html"),
        "/status.css": ("status.css", "text/css"),
        "/status.js": ("status.js", "text/javascript"),
    }
)


@dataclass(frozen=True, slots=True)
class Answers:
    """What the listener has to tell."""

    registry: Registry
    readiness: Readiness
    status: Status


class AdminServer:
    """The listener. Made and used inside the event loop.

    Args:
        config: where, and how many at once.
        answers: what it tells.
        tls: None for plain HTTP.
    """

    def __init__(
        self, config: AdminConfig, answers: Answers, tls: ssl.SSLContext | None = None
    ) -> None:
        self._config = config
        self._answers = answers
        self._http = web.Server(
            self._serve, keepalive_timeout=_IDLE_TIMEOUT_S, access_log=None, logger=_log
        )
        self.listener = Listener(self._http, tls)
        files = resources.files("gateway.web") / "status"
        self._page = {
            path: ((files / name).read_text("utf-8"), kind) for path, (name, kind) in _PAGE.items()
        }

    async def start(self, port: int) -> int:
        """Listen on a port, 0 for a free one; returns it. Raises OSError."""
        return await self.listener.start(self._config.host, port)

    async def stop(self) -> None:
        self.listener.close()
        await self._http.shutdown(_CUT_S)

    async def _serve(self, request: web.BaseRequest) -> web.Response:
        response = await self._answer(request)
        response.headers.update(_HEADERS)
        if request.method == "HEAD":
            response.body = None
        return response

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        if len(self._http.connections) > self._config.max_connections:
            response = _text(503, "Too many connections (admin.max_connections).")
            response.force_close()
            return response
        if not self._is_addressed(request.headers.get("Host", "")):
            return _text(403, "This name is not the gateway's; ask for it by its address.")
        if request.method not in ("GET", "HEAD"):
            return _text(405, "Everything here is only read.", Allow="GET, HEAD")
        match request.path:
            case "/metrics":
                return self._metrics(request.headers.get("Accept", ""))
            case "/healthz":
                return _text(200, "ok")
            case "/readyz":
                return await self._readiness()
            case "/status":
                return _json(200, self._answers.status.document())
            case path if path in self._page:
                text, kind = self._page[path]
                return web.Response(text=text, content_type=kind, charset="utf-8")
            case _:
                return _text(404, "Here are: / /metrics /healthz /readyz /status")

    def _metrics(self, accept: str) -> web.Response:
        body, content_type = self._answers.registry.exposition(accept)
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _readiness(self) -> web.Response:
        """200 where everything could be used, else 503 and what could not."""
        verdict = await self._answers.readiness.verdict()
        failed = {name: reason for name, reason in verdict.items() if reason}
        checks = {name: reason or "ok" for name, reason in verdict.items()}
        return _json(503 if failed else 200, {"ready": not failed, "checks": checks})

    def _is_addressed(self, host: str) -> bool:
        """Whether a request is meant for this listener.

        On loopback it must name an address or localhost: a web page whose name was made to point
        here (DNS rebinding) would name itself.
        """
        if not is_loopback(self._config.host):
            return True
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        return name in _LOCAL_NAMES or _is_address(name.removeprefix("[").removesuffix("]"))


def is_loopback(host: str) -> bool:
    """Whether an address to listen on is reached from this host alone."""
    return host == "localhost" or (_is_address(host) and ip_address(host).is_loopback)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _text(status: int, text: str, **headers: str) -> web.Response:
    return web.Response(status=status, text=text + "\n", headers=headers)


def _json(status: int, document: object) -> web.Response:
    return web.Response(
        status=status, text=json.dumps(document), content_type="application/json", charset="utf-8"
    )
