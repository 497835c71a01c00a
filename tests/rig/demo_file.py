"""Print the path of a real file for the demo: an archive or a binary of at least 60 MB.

`demo_file.py [FILE]`: the one given; else a binary that is on this machine; else an archive of this
Python's own library, made under .cache.
"""

from __future__ import annotations

import os
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

LEAST_BYTES, MOST_BYTES = 60_000_000, 512_000_000
RIG_CACHE = Path(os.environ.get("RDMA_VM_CACHE") or Path.home() / ".cache/rdma-vm")
PLACES = (RIG_CACHE, Path("/usr/bin"), Path("/usr/lib"), Path("/boot"))


def candidates() -> Iterator[Path]:
    """Files of a suitable size, the rig's kernel first: it is there whenever the rig is."""
    for place in PLACES:
        for path in sorted(place.glob("*")):
            if path.is_file() and LEAST_BYTES <= path.stat().st_size <= MOST_BYTES:
                yield path


def archive_of_python() -> Path:
    """A tar of the standard library, repeated under other names until it is long enough."""
    path = Path(__file__).parents[2] / ".cache/demo.tar"
    path.parent.mkdir(exist_ok=True)
    library = Path(os.__file__).parent
    with tarfile.open(path, "w") as archive:
        copy = 0
        while archive.offset < LEAST_BYTES:
            archive.add(library, f"python-{copy}")
            copy += 1
    return path


def main() -> None:
    """Print one path."""
    chosen = Path(sys.argv[1]) if len(sys.argv) > 1 else next(candidates(), None)
    path = (chosen or archive_of_python()).resolve()
    if not path.is_file():
        sys.exit(f"demo: no file {path}")
    sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
