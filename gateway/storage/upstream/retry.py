"""How long to wait before another attempt."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Attempts with waits between them that double, each drawn from the upper half of its range.

    Attributes:
        attempts: with the first; >= 1.
        first_s: the longest wait before the second.
        most_s: no wait is longer.
    """

    attempts: int
    first_s: float
    most_s: float

    def delay_s(self, attempt: int, draw: float | None = None) -> float | None:
        """Seconds until the attempt after this one; None where it was the last.

        Args:
            attempt: the one that failed, from 1 on.
            draw: 0 to 1, for tests; else random.
        """
        if attempt >= self.attempts:
            return None
        longest_s = min(self.most_s, self.first_s * (1 << (attempt - 1)))
        share = random.random() if draw is None else draw  # noqa: S311 (no secret)
        return longest_s * (1 + share) / 2
