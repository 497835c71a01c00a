"""`make run`: a gateway in the foreground, and how to point a client at it.

Ends with Ctrl-C. The store, and the key made for it the first time, stay.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

HOW = """\
In another terminal:

  export AWS_SHARED_CREDENTIALS_FILE={credentials} AWS_ENDPOINT_URL=http://{listen}
  export AWS_DEFAULT_REGION=us-east-1
  .venv/bin/s3rdma mb s3://first
  .venv/bin/s3rdma put README.md s3://first/readme
  .venv/bin/s3rdma ls s3://first

The same variables serve boto3 and aws-cli. `.venv/bin/s3rdma doctor` says whether this host can do
RDMA. Ctrl-C ends the gateway.
"""


def main() -> None:
    """Say how, then become the gateway."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--listen", required=True)
    parser.add_argument("--store", type=Path, required=True)
    arguments = parser.parse_args()
    store: Path = arguments.store.resolve()
    sys.stdout.write(HOW.format(credentials=store / "credentials", listen=arguments.listen))
    sys.stdout.flush()
    serve = ["serve", "--store", str(store), "--listen", arguments.listen]
    os.execv(sys.executable, [sys.executable, "-m", "gateway", *serve])


if __name__ == "__main__":
    main()
