"""Many transfers at once, bounded, each with an outcome of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from typing_extensions import Buffer

from gateway.client.errors import S3RdmaError
from gateway.client.memory import Tensor
from gateway.client.models import Outcome, Transfer
from gateway.client.parallel import for_each

Item = tuple[str, str, Buffer | Tensor] | tuple[str, Buffer | Tensor]
"""(bucket, key, buffer), or (key, buffer)."""


async def each(
    items: Iterable[Item],
    bucket: str,
    transfer: Callable[[str, str, Buffer | Tensor], Awaitable[Transfer]],
    concurrency: int,
) -> list[Outcome]:
    """Run `transfer` for every item; its own errors, and a bad buffer's, become outcomes."""
    outcomes: dict[int, Outcome] = {}

    async def one(numbered: tuple[int, Item]) -> None:
        number, item = numbered
        where, key, buffer = item if len(item) == 3 else (bucket, *item)
        try:
            outcomes[number] = Outcome(where, key, await transfer(where, key, buffer))
        except (S3RdmaError, ValueError) as error:
            outcomes[number] = Outcome(where, key, error=error)

    await for_each(enumerate(items), one, concurrency)
    return [outcomes[number] for number in sorted(outcomes)]
