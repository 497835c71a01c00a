"""``--include`` and ``--exclude``."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Globs:
    """Patterns on names relative to the prefix or directory; ``*`` stands for slashes, too."""

    included: tuple[re.Pattern[str], ...]
    excluded: tuple[re.Pattern[str], ...]

    @classmethod
    def of(cls, include: Sequence[str], exclude: Sequence[str]) -> Globs:
        """From the words of the command line."""
        return cls(*(tuple(_compiled(glob) for glob in globs) for globs in (include, exclude)))

    def take(self, name: str) -> bool:
        """Whether any of the included (or none is), and none of the excluded matches."""
        wanted = not self.included or any(glob.match(name) for glob in self.included)
        return wanted and not any(glob.match(name) for glob in self.excluded)


def _compiled(glob: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(glob))
