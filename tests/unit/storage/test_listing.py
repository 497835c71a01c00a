"""A page reads what it shows and one row more, however many keys a prefix rolls up."""

from bisect import bisect_left
from collections.abc import Iterator

import pytest

from gateway.storage.listing import Position, page, successor
from gateway.storage.port import ListQuery


class CountingIndex:
    def __init__(self, keys: list[str]) -> None:
        self._rows = sorted((key.encode(), "") for key in keys)
        self.read = 0

    def seek(self, start: Position) -> Iterator[tuple[Position, bytes]]:
        for row in self._rows[bisect_left(self._rows, start) :]:
            self.read += 1
            yield row, row[0]


@pytest.mark.parametrize(
    ("query", "shown", "read"),
    [
        (ListQuery("b", limit=10), 10, 11),
        (ListQuery("b", delimiter="/", limit=10), 10, 11),
        (ListQuery("b", delimiter="/", limit=1000), 50, 50),
        (ListQuery("b", prefix="d07/", limit=10), 10, 11),
        (ListQuery("b", prefix="d07/", delimiter="/", after="d07/f0998"), 1, 2),
        (ListQuery("b", delimiter="/", after="d48/"), 1, 1),
        (ListQuery("b", prefix="absent"), 0, 1),
        (ListQuery("b", limit=0), 0, 0),
    ],
)
def test_page__many_keys_below_prefixes__reads_no_more_than_it_shows(
    query: ListQuery, shown: int, read: int
) -> None:
    index = CountingIndex([f"d{d:02}/f{f:04}" for d in range(50) for f in range(1000)])
    found = page(index.seek, query)
    assert len(found.rows) + len(found.prefixes) == shown
    assert index.read == read


@pytest.mark.parametrize("prefix", ["a", "a/", "\x7f", "\u07ff", "\uffff", "\U0010ffff"])
def test_successor__any_prefix__behind_all_below_it_and_before_the_next(prefix: str) -> None:
    behind = successor(prefix.encode())
    assert (prefix + "\U0010ffff" * 3).encode() < behind
    assert prefix.encode() < behind
    assert not behind.startswith(prefix.encode())
