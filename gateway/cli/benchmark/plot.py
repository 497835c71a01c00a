"""What was measured, as a picture in a file: PNG, SVG or PDF, by its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.cli.benchmark.measure import Measurement, Operation, Way
from gateway.config import format_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = {Way.RC: "#0072b2", Way.HIPOBJ: "#009e73", Way.HTTP: "#d55e00"}  # Okabe and Ito's
_DASHES = ("solid", "dashed", "dotted", "dashdot")
_ROWS: tuple[tuple[str, Callable[[Measurement], float]], ...] = (
    ("GB/s", lambda one: one.gigabytes_per_s),
    ("median latency, ms", lambda one: one.p50_s * 1e3),
    ("client's CPU s/GiB", lambda one: one.cpu_s_per_gib),
)


def draw(measurements: Sequence[Measurement], title: str, path: Path) -> None:
    """Rate, latency and CPU by size; a column for each operation, a line for each way.

    Raises:
        ImportError: matplotlib is not installed.
        OSError: the file can't be written.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415  (half a second, and an extra)

    operations = [one for one in Operation if any(m.cell.operation is one for m in measurements)]
    figure = Figure(figsize=(6 * len(operations), 10), layout="constrained")
    grid = figure.subplots(len(_ROWS), len(operations), squeeze=False, sharex=True)
    figure.suptitle(title)
    for column, operation in enumerate(operations):
        chosen = [one for one in measurements if one.cell.operation is operation]
        for row, (label, value) in enumerate(_ROWS):
            axes = grid[row][column]
            _lines(axes, chosen, value)
            axes.set_ylabel(label)
        grid[0][column].set_title(operation.value.upper())
        grid[-1][column].set_xlabel("object")
    grid[0][0].legend(fontsize="small")
    figure.savefig(path)


def _lines(
    axes: Axes, measurements: Sequence[Measurement], value: Callable[[Measurement], float]
) -> None:
    concurrencies = sorted({one.cell.concurrency for one in measurements})
    for way in Way:
        for number, concurrency in enumerate(concurrencies):
            line = [
                one
                for one in measurements
                if one.cell.way is way and one.cell.concurrency == concurrency
            ]
            if line:
                axes.plot(
                    [one.cell.size_bytes for one in line],
                    [value(one) for one in line],
                    color=_COLOURS[way],
                    linestyle=_DASHES[number % len(_DASHES)],
                    marker="o",
                    label=f"{way.value}, {concurrency} at once",
                )
    sizes_bytes = sorted({one.cell.size_bytes for one in measurements})
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(sizes_bytes, [format_size(size_bytes) for size_bytes in sizes_bytes])
    axes.minorticks_off()
    axes.grid(visible=True, alpha=0.3)
