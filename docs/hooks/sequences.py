"""Sequence diagrams, drawn when the documentation is built: no script, no network, no browser.

The pages have them as Mermaid (https://mermaid.js.org/syntax/sequenceDiagram.html), of which this
reads what they use, and refuses the rest; their colours are style.css's::

    sequenceDiagram
        participant client
        participant gateway
        client->>gateway: a request               (solid arrow)
        gateway-->>client: its reply              (dashed)
        gateway-)client: bytes by RDMA            (thick)
        Note over gateway: what it does, in<br/>one line or more
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

BLOCK = re.compile(r"^```mermaid\n(sequenceDiagram\n.*?)^```$", re.MULTILINE | re.DOTALL)
_MESSAGE = re.compile(r"(\w+)(->>|-->>|-\))(\w+): (.+)")
_NOTE = re.compile(r"Note over (\w+): (.+)")
_PARTICIPANT = re.compile(r"participant (\w+)")

LANE_PX = 420  # between two participants
MARGIN_PX = 190
TOP_PX = 44
LINE_PX = 17
CHARACTER_PX = 6.6
_CLASSES = {"->>": "asks", "-->>": "answers", "-)": "moves"}


def on_page_markdown(markdown: str, **_event: Any) -> str:
    """Draw the page's diagrams (an event of mkdocs)."""
    return BLOCK.sub(lambda block: svg(block[1]), markdown)


@dataclass(frozen=True, slots=True)
class _Row:
    """One message or note: its lines of text, and from whom to whom."""

    kind: str
    start: str
    end: str
    lines: tuple[str, ...]

    @property
    def height_px(self) -> int:
        return LINE_PX * len(self.lines) + (22 if self.kind == "note" else 18)


def svg(source: str) -> str:
    """A diagram as an SVG element.

    Raises:
        ValueError: a line of it is not understood.
    """
    names, rows = _parse(source)
    at_px = {name: MARGIN_PX + LANE_PX * number for number, name in enumerate(names)}
    width_px = 2 * MARGIN_PX + LANE_PX * (len(names) - 1)
    height_px = TOP_PX + sum(row.height_px for row in rows) + 12
    parts = [
        f'<svg class="sequence" viewBox="0 0 {width_px} {height_px}" role="img" '
        f'aria-label="{escape(" and ".join(names))}">'
    ]
    for name, x_px in at_px.items():
        parts.append(f'<text class="name" x="{x_px}" y="18">{escape(name)}</text>')
        parts.append(f'<path class="life" d="M{x_px} 28V{height_px - 4}"/>')
    y_px = TOP_PX
    for row in rows:
        parts += _drawn(row, at_px[row.start], at_px[row.end], y_px)
        y_px += row.height_px
    return "".join([*parts, "</svg>\n"])


def _parse(source: str) -> tuple[list[str], list[_Row]]:
    names: list[str] = []
    rows: list[_Row] = []
    for line in source.splitlines()[1:]:
        text = line.strip()
        if found := _PARTICIPANT.fullmatch(text):
            names.append(found[1])
        elif found := _MESSAGE.fullmatch(text):
            rows.append(_Row(_CLASSES[found[2]], found[1], found[3], _lines(found[4])))
        elif found := _NOTE.fullmatch(text):
            rows.append(_Row("note", found[1], found[1], _lines(found[2])))
        else:
            raise ValueError(f"a sequence diagram's line is not understood: {text!r}")
    return names, rows


def _lines(text: str) -> tuple[str, ...]:
    return tuple(text.split("<br/>"))


def _drawn(row: _Row, start_px: int, end_px: int, y_px: int) -> Iterator[str]:
    middle_px = (start_px + end_px) // 2
    if row.kind == "note":
        width_px = max(len(line) for line in row.lines) * CHARACTER_PX + 20
        yield (
            f'<rect class="note" x="{middle_px - width_px / 2:g}" y="{y_px}" '
            f'width="{width_px:g}" height="{row.height_px - 10}" rx="4"/>'
        )
    for number, line in enumerate(row.lines, 1):
        baseline_px = y_px + LINE_PX * number - (0 if row.kind == "note" else 4)
        yield f'<text x="{middle_px}" y="{baseline_px}">{escape(line)}</text>'
    if row.kind != "note":
        line_px = y_px + LINE_PX * len(row.lines) + 4
        tip_px = 9 if end_px < start_px else -9
        yield (
            f'<path class="{row.kind}" d="M{start_px} {line_px}H{end_px}'
            f'm{tip_px} -5L{end_px} {line_px}l{tip_px} 5"/>'
        )
