"""The container image, built from our Dockerfile and run, by Debian's buildah and podman.

No registry is asked: the base image is made by mmdebstrap from Debian's packages, with the host's
own sources, certificates and pip settings. Everything lands in one directory.

    python tests/rig/container.py build DIRECTORY
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
BASE_IMAGE, IMAGE = "localhost/debian-python", "localhost/s3rdma"
BASE_PACKAGES = "python3-venv,python3-dev,ca-certificates"
DEBIAN = "bookworm"
_HOSTS_SETTINGS = ("/etc/ssl/certs", "/etc/pip.conf")  # how this host reaches the package index
_MAX_PROCESSES, _MAX_FILES = 1024, 16384  # a sandboxed root may only lower its limits
BUILD_LIMIT_S = 600.0
STOP_GRACE_S = 40


@dataclass(frozen=True, slots=True)
class Engine:
    """Images and containers in a directory of their own.

    Attributes:
        directory: is made where missing; images in it serve the next build as a cache.
    """

    directory: Path

    def build(self) -> None:
        """The base where it is missing, then our image from the Dockerfile."""
        if BASE_IMAGE not in self._buildah("images", "--format", "{{.Name}}").split():
            self._build_base()
        mounts = [f"--volume={path}:{path}:ro" for path in _HOSTS_SETTINGS if Path(path).exists()]
        self._buildah(
            *("bud", "--isolation", "chroot", "--network", "host", "--format", "docker"),
            *(*mounts, f"--build-arg=BASE={BASE_IMAGE}", "--layers", "--tag", IMAGE),
            str(REPOSITORY),
        )

    @contextmanager
    def running(
        self, name: str, environment: Mapping[str, str], *arguments: str
    ) -> Iterator[Container]:
        """A container of our image on the host's network, removed afterwards with its volume.

        Args:
            name: of the container.
            environment: for the gateway.
            arguments: for `s3rdma`; none leaves the image's own.
        """
        files = min(_MAX_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        self._podman(
            *("run", "--detach", "--name", name, "--network", "host", "--read-only"),
            *("--log-driver", "k8s-file"),
            *("--security-opt", "no-new-privileges", "--cap-drop", "ALL"),
            *("--ulimit", f"nofile={files}:{files}"),
            *("--ulimit", f"nproc={_MAX_PROCESSES}:{_MAX_PROCESSES}"),
            *(f"--env={variable}={value}" for variable, value in environment.items()),
            *(IMAGE, *arguments),
        )
        try:
            yield Container(self, name)
        finally:
            self._podman("rm", "--force", "--time", str(STOP_GRACE_S), "--volumes", name)

    def _build_base(self) -> None:
        archive = self.directory / "base.tar"
        sources = "".join(path.read_text() + "\n" for path in _apt_sources())
        _run(
            *("mmdebstrap", "--quiet", "--variant=minbase", f"--include={BASE_PACKAGES}"),
            *(f"--aptopt={line}" for line in _apt_settings()),
            *(DEBIAN, str(archive), "-"),
            text=sources,
        )
        container = self._buildah("from", "scratch").strip()
        self._buildah("add", "--quiet", container, str(archive), "/")
        self._buildah("commit", "--quiet", container, BASE_IMAGE)
        self._buildah("rm", container)
        archive.unlink()

    def _buildah(self, *arguments: str) -> str:
        self.directory.mkdir(parents=True, exist_ok=True)
        return _run("buildah", *self._places(), *arguments)

    def _podman(self, *arguments: str, check: bool = True) -> str:
        return _run(
            "podman", *self._places(), "--runtime", "runc", "--cgroup-manager", "cgroupfs",
            *arguments, check=check,
        )  # fmt: skip

    def _places(self) -> Sequence[str]:
        root, run = self.directory / "root", self.directory / "run"
        return ("--root", str(root), "--runroot", str(run), "--storage-driver", "overlay")


@dataclass(frozen=True, slots=True)
class Container:
    """A running container."""

    engine: Engine
    name: str

    def log(self) -> str:
        """What it printed, on both outputs."""
        return self.engine._podman("logs", self.name, check=False)

    def execute(self, *command: str) -> str:
        """Run a command in it."""
        return self.engine._podman("exec", self.name, *command)

    def healthy(self) -> bool:
        """Run the image's health check once."""
        said = self.engine._podman("healthcheck", "run", self.name, check=False)
        return "unhealthy" not in said

    def inspect(self, form: str) -> str:
        """A field of its description, as a Go template."""
        return self.engine._podman("inspect", "--format", form, self.name).strip()

    def stop(self) -> int:
        """SIGTERM, and its exit code."""
        self.engine._podman("stop", "--time", str(STOP_GRACE_S), self.name)
        return int(self.inspect("{{.State.ExitCode}}"))

    def start(self) -> None:
        """Again, after `stop`, on the same volume."""
        self.engine._podman("start", self.name)


def _apt_sources() -> Iterator[Path]:
    for folder in (Path("/etc/apt"), Path("/etc/apt/sources.list.d")):
        yield from sorted(folder.glob("*.sources"))
        yield from sorted(folder.glob("sources.list"))


def _apt_settings() -> Iterator[str]:
    """How this host's apt treats dates and proxies; a base made elsewhere must be reachable too."""
    dump = _run("apt-config", "dump")
    wanted = ("Acquire::Check", "Acquire::http::Proxy", "Acquire::https::Proxy")
    for line in dump.splitlines():
        if line.startswith(wanted):
            yield line.rstrip(";")


def _run(*command: str, text: str | None = None, check: bool = True) -> str:
    done = subprocess.run(
        command,
        input=text,
        capture_output=True,
        text=True,
        timeout=BUILD_LIMIT_S,
        check=False,
        env=os.environ | {"BUILDAH_FORMAT": "docker"},
    )
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr if not check else done.stdout


def main() -> int:
    match sys.argv[1:]:
        case ["build", directory]:
            Engine(Path(directory)).build()
            return 0
    sys.stderr.write(f"usage: {sys.argv[0]} build DIRECTORY\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
