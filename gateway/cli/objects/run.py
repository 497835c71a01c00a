"""What get, put and cp have in common: their tasks, run and told of."""

from __future__ import annotations

import argparse
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from gateway.cli import progress, remote
from gateway.cli.objects.batch import Batch
from gateway.cli.objects.report import Report, Style
from gateway.cli.objects.tasks import Task
from gateway.client import Client
from gateway.client.client import DEFAULT_LIMITS
from gateway.config.client import ClientLimits

Plan = Callable[[Client], AsyncIterator[Task]]


def run_plan(verb: str, args: argparse.Namespace, plan: Plan, *, to_stdout: bool = False) -> int:
    """Do what `plan` says, and tell of it; returns the exit code.

    `to_stdout` says that an object goes to standard output, so that nothing else may.
    """
    report = Report(verb, style(args, to_stdout=to_stdout))
    limits = limits_of(args)

    async def work(client: Client) -> None:
        wanted = not (args.quiet or args.json)
        with progress.board(verb, wanted=wanted) as board:
            batch = Batch(args.jobs, limits.part_bytes, args.dry_run, report.tell, board)
            await batch.run(plan(client))

    code = remote.run(args, work, limits=limits)
    return max(code, report.finish())


def version_problem(args: argparse.Namespace) -> str | None:
    """What is wrong with ``--version-id`` beside several objects; None where nothing is."""
    if args.version_id is not None and (args.recursive or len(args.sources) > 1):
        return "--version-id is of one object"
    return None


def style(args: argparse.Namespace, *, to_stdout: bool = False) -> Style:
    """How much is told, by the command's flags."""
    return Style(
        json=args.json,
        quiet=args.quiet,
        verbose=args.verbose,
        single=not args.recursive and len(args.sources) == 1,
        out=sys.stderr if to_stdout else sys.stdout,
    )


def limits_of(args: argparse.Namespace) -> ClientLimits:
    """The client's limits, with those that the command line sets."""
    return replace(
        DEFAULT_LIMITS,
        part_bytes=args.part_size,
        concurrency=args.parts,
        many_concurrency=args.jobs,
    )
