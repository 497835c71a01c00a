"""How the rig speaks: on stderr, prefixed, so that COMMAND's own output stays clean."""

from __future__ import annotations

import sys
from pathlib import Path

LOG_TAIL_CHARS = 3000


class RigError(Exception):
    """The rig itself failed; the command line answers 125."""


def say(*words: object) -> None:
    print("rdma-vm:", *words, file=sys.stderr, flush=True)


def logs(scratch: Path) -> str:
    """QEMU's messages and the end of the guest's console, to hang on an error."""
    files = [file for file in (scratch / "qemu", scratch / "console") if file.exists()]
    tails = (file.read_text(errors="replace")[-LOG_TAIL_CHARS:] for file in files)
    return "; QEMU's messages and the end of the guest's console:\n" + "".join(tails)
