from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from gateway.cli import main


@contextmanager
def admin_port(status: int, body: bytes) -> Iterator[int]:
    """Something that answers /readyz so; its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path == "/readyz"
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def verdict(**checks: str) -> bytes:
    return json.dumps({"ready": set(checks.values()) == {"ok"}, "checks": checks}).encode()


@pytest.mark.parametrize(
    ("status", "checks", "code"),
    [
        (200, {"storage": "ok", "fabric": "ok"}, 0),
        (503, {"storage": "ok", "fabric": "the port is down"}, 1),
    ],
)
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_health__the_gateway_answers__its_checks_and_0_or_1(
    status, checks, code, host, monkeypatch, capsys
):
    with admin_port(status, verdict(**checks)) as port:
        monkeypatch.setenv("S3RDMA_ADMIN_HOST", host)
        monkeypatch.setenv("S3RDMA_ADMIN_PORT", str(port))
        assert main(["health"]) == code
    assert capsys.readouterr().out == ", ".join(f"{k}: {v}" for k, v in checks.items()) + "\n"


@pytest.mark.parametrize("body", [b"not JSON", b"{}", b"[]"])
def test_health__something_else_listens_there__1(body, monkeypatch, capsys):
    with admin_port(200, body) as port:
        monkeypatch.setenv("S3RDMA_ADMIN_PORT", str(port))
        assert main(["health"]) == 1
    assert "no answer from 127.0.0.1 port" in capsys.readouterr().out


def test_health__nobody_listens__1_and_where_it_asked(monkeypatch, capsys):
    with admin_port(200, b"") as port:
        pass
    monkeypatch.setenv("S3RDMA_ADMIN_PORT", str(port))
    assert main(["health"]) == 1
    assert f"no answer from 127.0.0.1 port {port}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("S3RDMA_ADMIN_HOST", "", "no admin port"),
        ("S3RDMA_ADMIN_TLS", "true", "client's certificate"),
        ("S3RDMA_ADMIN_PORTT", "1", "did you mean"),
    ],
)
def test_health__it_cannot_be_asked__2(variable, value, said, monkeypatch, capsys):
    monkeypatch.setenv("S3RDMA_ADMIN_PORT", "9001")
    monkeypatch.setenv(variable, value)
    assert main(["health"]) == 2
    assert said in capsys.readouterr().err
