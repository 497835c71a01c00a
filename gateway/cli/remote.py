"""Running a client's command: a client from the command line's options, errors as exit codes."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Awaitable, Callable

import uvloop
from botocore.credentials import Credentials

from gateway.client import Client, ConnectError, RdmaMode, S3RdmaError

DONE, FAILED, USAGE = 0, 1, 2

Work = Callable[[Client], Awaitable[None]]


def run(args: argparse.Namespace, work: Work, subject: str = "") -> int:
    """Do the work; what went wrong is one line on standard error and the exit code.

    `subject` is what the line begins with: the URL that was asked for.
    """
    problem = attempt(args, work)
    if problem is None:
        return DONE
    return complain(printable(": ".join(filter(None, (subject, problem)))))


def attempt(args: argparse.Namespace, work: Work) -> str | None:
    """Open the client that `args` describe and do the work; returns what went wrong, or None."""
    try:
        client = make_client(args)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_with_client(client, work))
    except ConnectError as error:
        return f"{error} (is `s3rdma serve` running there? see --endpoint-url)"
    except OSError as error:
        return f"{error.filename}: {error.strerror}" if error.filename else str(error)
    except (S3RdmaError, ValueError) as error:
        return str(error)
    return None


def make_client(args: argparse.Namespace) -> Client:
    """A client, not yet entered.

    Raises:
        ValueError: the endpoint is malformed.
    """
    return Client(
        endpoint_url=args.endpoint_url,
        region_name=args.region,
        credentials=_credentials_from_environment(),
        profile_name=args.profile,
        rdma=_mode(args),
        device=getattr(args, "device", ""),
    )


def complain(text: str, code: int = FAILED) -> int:
    """One line on standard error."""
    print(f"s3rdma: {text}", file=sys.stderr)
    return code


def printable(text: str) -> str:
    """A key or reason as one line that can't steer a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


async def _with_client(client: Client, work: Work) -> None:
    async with client:
        await work(client)


def _mode(args: argparse.Namespace) -> RdmaMode:
    if getattr(args, "http", False):
        return RdmaMode.NEVER
    return RdmaMode.REQUIRE if getattr(args, "rdma", False) else RdmaMode.AUTO


def _credentials_from_environment() -> Credentials | None:
    """The gateway's own pair of variables; None leaves it to botocore's chain."""
    access_key = os.environ.get("S3RDMA_ACCESS_KEY")
    secret_key = os.environ.get("S3RDMA_SECRET_KEY")
    return Credentials(access_key, secret_key) if access_key and secret_key else None
