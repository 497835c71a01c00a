"""The benchmark from the command line: measured, told, drawn."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import uvloop

from gateway.cli import remote
from gateway.cli.benchmark import plot
from gateway.cli.benchmark.measure import Bench, Cell, Measurement, Operation, Plan, Way
from gateway.cli.benchmark.table import bars, table
from gateway.client import S3RdmaError
from gateway.client.client import DEFAULT_LIMITS


def bench(args: argparse.Namespace) -> int:
    """``s3rdma bench URL``; returns the exit code."""
    args.endpoint_url = args.where.endpoint_url or args.endpoint_url
    plan = Plan(
        args.where.bucket,
        tuple(args.sizes),
        tuple(args.concurrency),
        tuple(Operation(name) for name in args.operations),
        tuple(Way(name) for name in args.ways),
        args.seconds,
    )
    # Not cut into parts: a transfer of these sizes is one request.
    limits = replace(DEFAULT_LIMITS, concurrency=max(plan.concurrencies))
    with _status(wanted=not args.json) as starting:
        bench = Bench(
            plan,
            lambda way: remote.make_client(
                args, mode=way.mode, protocol=way.protocol, limits=limits
            ),
            starting,
        )
        measurements: list[Measurement] = []

        async def measure() -> None:
            async for one in bench.run():
                measurements.append(one)
                if args.json:
                    print(json.dumps(_json_row(one)), flush=True)

        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(measure())
        except (S3RdmaError, OSError, ValueError) as error:
            return remote.complain(remote.printable(f"{args.where}: {remote.reason(error)}"))
    return _tell(args, bench, measurements)


def _tell(args: argparse.Namespace, bench: Bench, measurements: list[Measurement]) -> int:
    title = f"{args.endpoint_url}, {args.seconds:g} s each"
    if args.json:
        refused = {way.value: reason for way, reason in bench.refused.items()}
        summary = {
            "endpoint": args.endpoint_url,
            "measured": len(measurements),
            "refused": refused,
            "busy": {str(cell): reason for cell, reason in bench.busy.items()},
        }
        print(json.dumps({"summary": summary}))
    else:
        for line in table(measurements):
            print(line)
        print()
        for line in bars(measurements):
            print(line)
        for way, reason in bench.refused.items():
            print(remote.printable(f"not by {way.value}: {reason}"))
        for cell, reason in bench.busy.items():
            print(remote.printable(f"not {cell}: {reason}"))
    if not measurements:
        return remote.complain(f"{args.where}: none of these ways can be gone")
    try:
        for path in args.plot:
            plot.draw(measurements, title, path)
    except ImportError as error:
        return remote.complain(
            f"--plot needs matplotlib: pip install 's3-rdma-gateway[bench]' ({error})"
        )
    except OSError as error:
        return remote.complain(remote.reason(error))
    return remote.DONE


@contextmanager
def _status(*, wanted: bool) -> Iterator[Callable[[Cell], None]]:
    """Lend whom to tell what is being measured; shown where standard error is a terminal."""
    if not (wanted and sys.stderr.isatty()):
        yield lambda _cell: None
        return
    from rich.console import Console  # noqa: PLC0415  (programs without a terminal start faster)

    with Console(stderr=True).status("opening") as status:
        yield lambda cell: status.update(str(cell))


def _json_row(one: Measurement) -> dict[str, object]:
    cell: Cell = one.cell
    return {
        "operation": cell.operation.value,
        "size_bytes": cell.size_bytes,
        "concurrency": cell.concurrency,
        "way": cell.way.value,
        "carrier": one.carrier,
        "transfers": one.transfers,
        "seconds": one.seconds,
        "p50_s": one.p50_s,
        "p90_s": one.p90_s,
        "p99_s": one.p99_s,
        "transfers_per_s": one.transfers_per_s,
        "gigabytes_per_s": one.gigabytes_per_s,
        "cpu_s_per_gib": one.cpu_s_per_gib,
    }
