"""What was measured, as a table and as a picture of characters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from gateway.cli.benchmark.measure import Cell, Measurement, Way
from gateway.config import format_size

_BAR_CHARACTERS = 40
_EIGHTHS = " ▏▎▍▌▋▊▉"

_HEAD = ("", "size", "at once", "way", "p50 ms", "p90 ms", "p99 ms", "1/s", "MB/s", "CPU s/GiB")


def table(measurements: Sequence[Measurement]) -> Iterator[str]:
    """A line for each measurement; the last column is its rate, as a ratio to HTTP's."""
    rows = [(*_HEAD, "to http"), *(_row(one, measurements) for one in measurements)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = zip(row, widths, strict=True)
        yield "  ".join(
            text.ljust(width) if text.isalpha() else text.rjust(width) for text, width in cells
        ).rstrip()


def ratio_to_http(one: Measurement, measurements: Sequence[Measurement]) -> float | None:
    """The rate as a multiple of HTTP's in the same cell; None where that was not measured."""
    cell = one.cell
    beside = Cell(cell.operation, cell.size_bytes, cell.concurrency, Way.HTTP)
    for other in measurements:
        if other.cell == beside:
            return one.transfers_per_s / other.transfers_per_s
    return None


def bars(measurements: Sequence[Measurement]) -> Iterator[str]:
    """Each way's rate beside the others', a group for each operation, size and concurrency."""
    for (operation, size_bytes, concurrency), group in groupby(
        measurements,
        key=lambda one: (one.cell.operation, one.cell.size_bytes, one.cell.concurrency),
    ):
        members = list(group)
        best = max(one.gigabytes_per_s for one in members)
        yield f"{operation.value.upper()} {format_size(size_bytes)}, {concurrency} at once"
        for one in members:
            bar = _bar(one.gigabytes_per_s / best * _BAR_CHARACTERS)
            yield f"  {one.cell.way.value:<6} {bar} {_digits(one.gigabytes_per_s * 1e3)} MB/s"


def _bar(length: float) -> str:
    """A bar of so many characters, to an eighth of one."""
    whole, rest = divmod(round(length * 8), 8)
    return ("█" * whole + _EIGHTHS[rest]).rstrip().ljust(_BAR_CHARACTERS)


def _digits(number: float) -> str:
    """Three digits that mean something; no powers of ten."""
    return f"{number:.0f}" if number >= 1000 else f"{number:.3g}"


def _row(one: Measurement, measurements: Sequence[Measurement]) -> tuple[str, ...]:
    cell = one.cell
    ratio = ratio_to_http(one, measurements)
    return (
        cell.operation.value.upper(),
        format_size(cell.size_bytes),
        str(cell.concurrency),
        cell.way.value,
        *(_digits(seconds * 1e3) for seconds in (one.p50_s, one.p90_s, one.p99_s)),
        _digits(one.transfers_per_s),
        _digits(one.gigabytes_per_s * 1e3),
        _digits(one.cpu_s_per_gib),
        "" if ratio is None else f"{ratio:.2f}",
    )
