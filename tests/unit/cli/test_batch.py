"""Many tasks: each with an outcome of its own, and an end where there is no hope."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from io import StringIO

import pytest

from gateway.cli.objects.batch import LARGE_AT_ONCE, UNANSWERED, Batch
from gateway.cli.objects.report import Report, Style
from gateway.cli.objects.tasks import Item, Row, SkippedError, Status, Task, refused
from gateway.cli.options import S3Url
from gateway.cli.progress import NoBoard
from gateway.client import (
    ConnectError,
    CredentialsError,
    S3Error,
    Transfer,
    TransferError,
    TransferPath,
)
from gateway.client.download import Progress

LARGE_BYTES = 1000
MOVED = Transfer(10, 0.5, "e", TransferPath.HTTP, "RDMA is off there")


def item(name: str, size_bytes: int = 10) -> Item:
    return Item("get", S3Url("b", name), f"dir/{name}", size_bytes)


def task(name: str, result: Exception | Transfer | None = MOVED, size_bytes: int = 10) -> Task:
    async def work(_progress: Progress) -> Transfer | None:
        await asyncio.sleep(0)
        if isinstance(result, Exception):
            raise result
        return result

    return Task(item(name, size_bytes), work)


async def stream(tasks: Sequence[Task]) -> AsyncIterator[Task]:
    for one in tasks:
        yield one


async def run(
    tasks: Sequence[Task], *, jobs: int = 2, dry_run: bool = False, tell: Callable[[Row], None]
) -> None:
    await Batch(jobs, LARGE_BYTES, dry_run, tell, NoBoard()).run(stream(tasks))


async def outcomes(tasks: Sequence[Task], **options: bool) -> dict[str, Row]:
    rows: list[Row] = []
    await run(tasks, tell=rows.append, **options)
    return {row.item.url.key: row for row in rows}


async def test_run__each_ends_otherwise__each_is_told() -> None:
    rows = await outcomes(
        [
            task("done"),
            task("copied", None),
            task("skipped", SkippedError("it is there already")),
            task("lost", TransferError("cut off")),
            task("full", OSError(28, "No space left on device", "dir/full")),
            refused(item("odd"), ValueError("no name")),
        ]
    )
    assert {key: (row.status, row.reason) for key, row in rows.items()} == {
        "done": (Status.DONE, ""),
        "copied": (Status.DONE, ""),
        "skipped": (Status.SKIPPED, "it is there already"),
        "lost": (Status.FAILED, "cut off"),
        "full": (Status.FAILED, "dir/full: No space left on device"),
        "odd": (Status.FAILED, "no name"),
    }


async def test_run__dry__does_nothing() -> None:
    rows = await outcomes([task("a", AssertionError("it was done"))], dry_run=True)
    assert rows["a"].status is Status.PLANNED


@pytest.mark.parametrize(
    ("error", "most"), [(ConnectError("gone"), UNANSWERED + 1), (CredentialsError("none"), 2)]
)
async def test_run__endpoint_or_keys_are_gone__gives_up(
    error: Exception, most: int, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = await outcomes([task(str(n), error) for n in range(20_000)])
    assert 0 < len(rows) <= most
    assert {row.status for row in rows.values()} == {Status.FAILED}
    assert "given up" in capsys.readouterr().err


async def test_run__one_in_a_while_is_not_answered__goes_on() -> None:
    lost = ConnectError("no answer in time")
    rows = await outcomes([task(str(n), lost if n % 3 == 0 else MOVED) for n in range(30)])
    assert len(rows) == 30


@pytest.mark.parametrize("code", ["NoSuchBucket", "SignatureDoesNotMatch", "InvalidAccessKeyId"])
async def test_run__no_object_would_fare_better__gives_up(
    code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = await outcomes([task(str(n), S3Error(code, 404)) for n in range(20_000)])
    assert len(rows) <= 2
    assert "given up" in capsys.readouterr().err


async def test_run__large_objects__are_few_at_once() -> None:
    now = most = 0

    async def work(_progress: Progress) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1

    tasks = [Task(item(str(n), LARGE_BYTES + 1), work) for n in range(20)]
    await run(tasks, jobs=8, tell=lambda _row: None)
    assert most == LARGE_AT_ONCE


async def test_run__planning_fails__is_that_error() -> None:
    async def broken() -> AsyncIterator[Task]:
        yield task("a")
        raise S3Error("AccessDenied", 403)

    with pytest.raises(S3Error, match="AccessDenied"):
        await Batch(2, LARGE_BYTES, False, lambda _row: None, NoBoard()).run(broken())


ROWS = [
    Row(item("a"), Status.DONE, MOVED),
    Row(item("b\n"), Status.SKIPPED, reason="it is there already"),
    Row(item("c", 7), Status.DONE),
]
LOST = Row(item("d"), Status.FAILED, reason="cut off\x1b")


def told(rows: Sequence[Row], **style: bool) -> tuple[int, list[str]]:
    out = StringIO()
    report = Report("get", Style(out=out, **style))
    for row in rows:
        report.tell(row)
    return report.finish(), out.getvalue().splitlines()


def test_report__of_many__is_a_summary(capsys: pytest.CaptureFixture[str]) -> None:
    code, (line,) = told([*ROWS, LOST])
    assert code == 1
    assert line.startswith("get 2 objects, 17 bytes in ")
    assert line.endswith("by HTTP: RDMA is off there, 1 skipped, 1 failed")
    assert capsys.readouterr().err == "s3rdma: s3://b/d: cut off\\x1b\n"


def test_report__by_two_ways__counts_them() -> None:
    by_rdma = Transfer(10, 0.5, "e", TransferPath.RDMA, device="rxe0")
    _, (line,) = told([ROWS[0], ROWS[0], Row(item("z"), Status.DONE, by_rdma)])
    assert line.endswith("by HTTP: RDMA is off there (2); RDMA (rxe0) (1)")


def test_report__verbose__has_a_line_for_each() -> None:
    code, lines = told(ROWS, verbose=True)
    assert (code, len(lines)) == (0, 4)
    assert lines[1] == "skipped get s3://b/b\\n to dir/b\\n: it is there already"
    assert lines[2] == "get s3://b/c to dir/c"


def test_report__quiet__says_what_failed_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert told([*ROWS, LOST], quiet=True) == (1, [])
    assert "s3://b/d" in capsys.readouterr().err


def test_report__single__has_no_summary() -> None:
    _, lines = told(ROWS[:1], single=True)
    assert lines == ["get 10 bytes in 0.50 s (0.00 GB/s) by HTTP: RDMA is off there"]


def test_report__planned__says_what_would_be() -> None:
    _, lines = told([Row(item("a"), Status.PLANNED)])
    assert lines == ["would get s3://b/a to dir/a", "get 1 objects would be"]


def test_report__json__is_lines_and_a_summary() -> None:
    _, lines = told(
        [*ROWS, LOST, Row(Item("rm", S3Url("b", "e"), version_id="v"), Status.DONE)], json=True
    )
    rows = [json.loads(line) for line in lines]
    assert [row.get("status") for row in rows[:-1]] == [
        *("done", "skipped", "done", "failed", "done")
    ]
    assert (rows[0]["path"], rows[0]["reason"]) == ("HTTP", "RDMA is off there")
    assert (rows[3]["key"], rows[3]["reason"], rows[4]["version_id"]) == ("d", "cut off\x1b", "v")
    summary = rows[-1]["summary"]
    assert (summary["done"], summary["failed"], summary["bytes"]) == (3, 1, 17)
    assert summary["by"] == {"HTTP: RDMA is off there": 1}
