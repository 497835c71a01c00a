"""Bytes that are known wherever they turn up: what dying clients put, get, and send too late."""

from __future__ import annotations

import random

PATTERN = b"\xc5CANARY-IN-MINE\xc5"  # 16 bytes: no packet or slot cuts one
FILL = 0xEE
SHORTEST_BYTES, LONGEST_BYTES = 1024, 2 * 1024 * 1024
_LONGEST = PATTERN * (LONGEST_BYTES // len(PATTERN) + 1)


def some_length(choice: random.Random) -> int:
    """As often short as long: one piece of a slot, or many slots after each other."""
    return int(SHORTEST_BYTES * (LONGEST_BYTES / SHORTEST_BYTES) ** choice.random())


def canary(length_bytes: int) -> bytes:
    """At most LONGEST_BYTES of it."""
    return _LONGEST[:length_bytes]


def is_canary_or_fill(buffer: bytearray) -> bool:
    """Whether it holds whole patterns, bytes that were never written, and nothing else."""
    return not buffer.replace(PATTERN, b"").translate(None, bytes([FILL]))
