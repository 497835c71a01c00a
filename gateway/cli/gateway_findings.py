"""What a gateway offers to these credentials, asked of itself, and tried with a real transfer."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from gateway.cli import remote
from gateway.cli.benchmark.measure import Way
from gateway.cli.diagnosis import Finding, Level
from gateway.cli.objects.report import way as carried_by
from gateway.client import (
    Client,
    ConnectError,
    CredentialsError,
    RdmaMode,
    S3Error,
    S3RdmaError,
    Transfer,
    UnsupportedError,
)
from gateway.config import MIB

_TEST_BYTES = 8 * MIB
_SKEW_NOTED_S = 60.0  # S3 refuses at 15 minutes
_KEY = "s3rdma-doctor"

_CUOBJECT = ":".join(("0" * 15 + "1", "00000001", "00000001", "0000", "000001", "0", "0" * 32))
"""A token as cuObject's clients send it (PROTOCOL section 4). It names no memory of anybody's."""

_KEYS_REMEDY = "see `s3rdma keys list` on the gateway's host, and AWS_ACCESS_KEY_ID here"
_CLOCK_REMEDY = "set both clocks: timedatectl set-ntp true, or chronyc makestep"
_RDMA_REMEDY = "on the gateway's host run `s3rdma doctor`, and see its log for why RDMA is off"


async def look(args: argparse.Namespace) -> AsyncIterator[Finding]:
    """From the outside in: does it answer, to these keys, at this time; then by each way."""
    try:
        async with remote.make_client(args, mode=RdmaMode.NEVER) as client:
            yield await _clock(client)
            async with _bucket(client, args.bucket) as bucket:
                async for finding in _ways(args, bucket):
                    yield finding
                yield await _cuobject(client, bucket)
    except ConnectError as error:
        yield Finding(Level.BROKEN, "endpoint", str(error), "is `s3rdma serve` running there?")
    except CredentialsError as error:
        yield Finding(Level.BROKEN, "credentials", str(error), _KEYS_REMEDY)
    except S3Error as error:
        yield _refused(error)


def _refused(error: S3Error) -> Finding:
    """What the server's answer to a request that everybody may make says of these credentials."""
    match error.code:
        case "InvalidAccessKeyId" | "SignatureDoesNotMatch":
            return Finding(Level.BROKEN, "credentials", str(error), _KEYS_REMEDY)
        case "RequestTimeTooSkewed":
            return Finding(Level.BROKEN, "clock", str(error), _CLOCK_REMEDY)
        case "AccessDenied":
            return Finding(
                Level.NOTE, "self-test", str(error), "name a bucket that it may use: --bucket"
            )
    return Finding(Level.BROKEN, "self-test", str(error), "see the gateway's log")


async def _clock(client: Client) -> Finding:
    skew_s = time.time() - (await client.server_time()).timestamp() - 0.5  # it told whole seconds
    detail = f"the gateway's is {'within a second' if abs(skew_s) <= 1 else f'{skew_s:.0f} s off'}"
    if abs(skew_s) > _SKEW_NOTED_S:
        return Finding(Level.NOTE, "clock", f"{detail}; at 15 minutes it refuses", _CLOCK_REMEDY)
    return Finding(Level.GOOD, "clock", detail)


@asynccontextmanager
async def _bucket(client: Client, named: str) -> AsyncIterator[str]:
    """The bucket named, or one made for this and removed again; the object is gone afterwards."""
    async with AsyncExitStack() as stack:
        bucket = named
        if not named:
            bucket = f"s3rdma-doctor-{os.urandom(8).hex()}"
            await client.create_bucket(bucket)
            stack.push_async_callback(client.delete_bucket, bucket)
        stack.push_async_callback(client.delete_object, bucket, _KEY)
        yield bucket


async def _ways(args: argparse.Namespace, bucket: str) -> AsyncIterator[Finding]:
    """There and back by each way; bad where no way of RDMA can be gone."""
    problems: list[str] = []
    for way in Way:
        try:
            yield Finding(Level.GOOD, way.value, await _there_and_back(args, way, bucket))
        except UnsupportedError as error:
            problems.append(str(error))
            yield Finding(Level.NOTE, way.value, str(error))
        except S3Error:
            raise
        except S3RdmaError as error:
            yield Finding(Level.BROKEN, way.value, str(error), _RDMA_REMEDY)
    if len(problems) == len(Way) - 1:
        yield Finding(Level.BAD, "RDMA", f"no way of it can be gone: {problems[-1]}", _RDMA_REMEDY)


async def _there_and_back(args: argparse.Namespace, way: Way, bucket: str) -> str:
    """A line with the rates of a PUT and a GET of the same bytes."""
    data, back = bytearray(os.urandom(_TEST_BYTES)), bytearray(_TEST_BYTES)
    async with remote.make_client(args, mode=way.mode, protocol=way.protocol) as client:
        put: Transfer = await client.put_from(bucket, _KEY, data)
        got = await client.get_into(bucket, _KEY, back, length=_TEST_BYTES)
    if back != data:
        raise S3RdmaError("other bytes came back than were stored")
    carried = f" by {carried_by(got)}" if way is not Way.HTTP else ""
    return f"PUT {put.gigabytes_per_s:.2f} GB/s, GET {got.gigabytes_per_s:.2f} GB/s{carried}"


async def _cuobject(client: Client, bucket: str) -> Finding:
    """NVIDIA's clients must hear no, and get the object by HTTP all the same."""
    said = await client.token_reply(bucket, _KEY, _CUOBJECT)
    if said == "501":
        return Finding(Level.GOOD, "cuObject", "its tokens are declined, the objects sent by HTTP")
    detail = f"a GET with its token was answered {said}" if said else "its tokens are passed over"
    return Finding(Level.NOTE, "cuObject", detail)
