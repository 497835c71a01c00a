"""Running a client's command: a client from the command line's options, errors as exit codes."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Awaitable, Callable

import uvloop
from botocore.credentials import Credentials

from gateway.client import Client, ConnectError, RdmaMode, RdmaProtocol, S3RdmaError
from gateway.client.client import DEFAULT_LIMITS
from gateway.config.client import ClientLimits

DONE, FAILED, USAGE = 0, 1, 2

Work = Callable[[Client], Awaitable[None]]


def run(
    args: argparse.Namespace,
    work: Work,
    subject: str = "",
    *,
    limits: ClientLimits = DEFAULT_LIMITS,
) -> int:
    """Do the work; what went wrong is one line on standard error and the exit code.

    `subject` is what the line begins with: the URL that was asked for.
    """
    problem = attempt(args, work, limits=limits)
    if problem is None:
        return DONE
    return complain(printable(": ".join(filter(None, (subject, problem)))))


def attempt(
    args: argparse.Namespace,
    work: Work,
    *,
    limits: ClientLimits = DEFAULT_LIMITS,
) -> str | None:
    """Open the client that `args` describe and do the work; returns what went wrong, or None."""
    try:
        client = make_client(args, limits=limits)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_with_client(client, work))
    except BrokenPipeError:  # of standard output: whoever read it has seen enough
        raise
    except (OSError, S3RdmaError, ValueError) as error:
        return reason(error)
    return None


def reason(error: Exception) -> str:
    """What an error says, in a line, with what to do where that is known."""
    match error:
        case ConnectError():
            return f"{error} (is `s3rdma serve` running there? see --endpoint-url)"
        case OSError(filename=name, strerror=words) if name is not None:
            return f"{os.fsdecode(name)}: {words}"
    return str(error)


def make_client(
    args: argparse.Namespace,
    *,
    mode: RdmaMode | None = None,
    protocol: RdmaProtocol | None = None,
    limits: ClientLimits = DEFAULT_LIMITS,
) -> Client:
    """A client, not yet entered; `mode` is what the flags say, where it is None.

    Raises:
        ValueError: the endpoint is malformed.
    """
    return Client(
        endpoint_url=args.endpoint_url,
        region_name=args.region,
        credentials=_credentials_from_environment(),
        profile_name=args.profile,
        verify=False if args.no_verify_ssl else args.ca_bundle,
        rdma=mode or _mode(args),
        device=getattr(args, "device", ""),
        protocol=protocol,
        limits=limits,
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
