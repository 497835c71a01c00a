"""Mixed operations from many clients on few keys, and whether each key's history can be explained.

    python tests/rig/linearizability.py [--operations N] [--clients N] [--keys N]

Ends with 1 where it can't, where a read was torn, or where a client saw a 5xx.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from gateway_process import gateway_process
from mixed_load import mixed_load


def main() -> int:
    """Read the options, run, judge."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--operations", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--keys", type=int, default=50)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as home,
        gateway_process(Path(home), "--rdma-fabric", "off") as process,
    ):
        started_s = time.perf_counter()
        outcome = asyncio.run(
            mixed_load(
                process,
                operations=options.operations,
                clients=options.clients,
                keys=options.keys,
            )
        )
        took_s = time.perf_counter() - started_s
    broken = outcome.broken_keys()
    print(
        f"{outcome.operations} operations of {options.clients} clients on {options.keys} keys "
        f"in {took_s:.0f} s: {len(outcome.wrong)} wrong answers, "
        f"{len(broken)} keys without an explanation"
    )
    print("\n".join([*outcome.wrong[:20], *broken]))
    return 1 if broken or outcome.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
