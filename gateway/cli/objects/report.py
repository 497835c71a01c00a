"""How a command tells what it did: a line for people, or JSON lines; failures on standard error."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TextIO

from gateway.cli import remote
from gateway.cli.objects.tasks import Item, Row, Status
from gateway.client import Transfer, TransferPath


@dataclass(frozen=True, slots=True)
class Style:
    """How much is told.

    Attributes:
        json: one line for each object, the summary last.
        quiet: failures only.
        verbose: a line for each of many objects.
        single: the command names one object: its line is the summary.
        out: where the lines go.
    """

    json: bool = False
    quiet: bool = False
    verbose: bool = False
    single: bool = False
    out: TextIO = field(default_factory=lambda: sys.stdout)


class Report:
    """Told of each object, and of the end.

    Args:
        verb: the command's name.
        style: how much is told.
    """

    def __init__(self, verb: str, style: Style) -> None:
        self._verb = verb
        self._style = style
        self._started_s = time.perf_counter()
        self._counts: Counter[Status] = Counter()
        self._ways: Counter[str] = Counter()
        self._bytes = 0

    def tell(self, row: Row) -> None:
        """Of one object."""
        self._counts[row.status] += 1
        if row.status is Status.DONE:
            self._bytes += row.size_bytes
        if row.transfer is not None:
            self._ways[way(row.transfer)] += 1
        if self._style.json:
            self._say(json.dumps(_json_row(row)))
        elif row.status is Status.PLANNED:
            self._say(f"would {remote.printable(str(row.item))}")
        elif row.status is not Status.FAILED and self._each:
            self._say(_line(row))
        if row.status is Status.FAILED:
            remote.complain(remote.printable(f"{row.item.url}: {row.reason}"))

    def finish(self) -> int:
        """The summary; returns the exit code."""
        counts = self._counts
        seconds = max(time.perf_counter() - self._started_s, 1e-9)
        if self._style.json:
            self._say(json.dumps({"summary": self._summary(seconds)}))
        elif not self._style.quiet and not self._style.single and counts.total():
            self._say(self._summary_line(seconds))
        return remote.FAILED if counts[Status.FAILED] else remote.DONE

    @property
    def _each(self) -> bool:
        """Whether there is a line for each object that did not fail."""
        return not self._style.quiet and (self._style.verbose or self._style.single)

    def _summary(self, seconds: float) -> Mapping[str, object]:
        return {
            "operation": self._verb,
            **{status.value: self._counts[status] for status in Status},
            "bytes": self._bytes,
            "seconds": seconds,
            "gigabytes_per_s": self._bytes / seconds / 1e9,
            "by": dict(self._ways),
        }

    def _summary_line(self, seconds: float) -> str:
        if self._counts[Status.PLANNED]:
            return f"{self._verb} {self._counts[Status.PLANNED]} objects would be"
        done = self._counts[Status.DONE]
        objects = "1 object" if done == 1 else f"{done} objects"
        line = f"{self._verb} {objects}, {self._bytes} bytes in {seconds:.2f} s"
        if self._ways:
            line += f" ({self._bytes / seconds / 1e9:.2f} GB/s)"
            ways = self._ways.most_common()
            line += " by " + "; ".join(f"{by} ({n})" if len(ways) > 1 else by for by, n in ways)
        for status in (Status.SKIPPED, Status.FAILED):
            if self._counts[status]:
                line += f", {self._counts[status]} {status.value}"
        return line

    def _say(self, text: str) -> None:
        print(text, file=self._style.out, flush=True)


def result_line(verb: str, done: Transfer) -> str:
    """``put 67108864 bytes in 0.52 s (0.13 GB/s) by RDMA (rxe0, verbs, rc)``."""
    return (
        f"{verb} {done.bytes} bytes in {done.seconds:.2f} s ({done.gigabytes_per_s:.2f} GB/s) "
        f"by {way(done)}"
    )


def way(done: Transfer) -> str:
    """``RDMA (rxe0, verbs, rc)``, or ``HTTP: `` and why."""
    if done.path is TransferPath.RDMA:
        protocol = done.protocol.value if done.protocol else ""
        means = ", ".join(filter(None, (done.device, done.carrier, protocol)))
        return remote.printable(f"RDMA ({means})")
    return remote.printable(f"HTTP: {done.reason}" if done.reason else "HTTP")


def _line(row: Row) -> str:
    if row.status is Status.SKIPPED:
        return remote.printable(f"skipped {row.item}: {row.reason}")
    if row.transfer is None:
        return remote.printable(str(row.item))
    return result_line(row.item.verb, row.transfer)


def _json_row(row: Row) -> dict[str, object]:
    item: Item = row.item
    told: dict[str, object] = {
        "operation": item.verb,
        "status": row.status.value,
        "bucket": item.url.bucket,
        "key": item.url.key,
        "file" if item.verb in {"get", "put"} else "target": item.path,
        "bytes": row.size_bytes,
    }
    if row.reason:
        told["reason"] = row.reason
    if item.version_id is not None:
        told["version_id"] = item.version_id
    if row.transfer is None:
        return told
    done = row.transfer
    return told | {
        "seconds": done.seconds,
        "gigabytes_per_s": done.gigabytes_per_s,
        "path": done.path.value,
        "protocol": done.protocol.value if done.protocol else None,
        "device": done.device,
        "carrier": done.carrier,
        "reason": done.reason,
        "etag": done.etag,
        "version_id": done.version_id,
    }
