"""The guest's kernel and initrd: taken from Debian's package, kept in a cache directory."""

from __future__ import annotations

import lzma
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from rdma_vm import cpio
from rdma_vm.report import RigError, say

PACKAGES = (
    *("qemu-system-x86", "busybox-static", "kmod", "iproute2"),  # the guest
    *("rdma-core", "libibverbs1", "ibverbs-providers", "ibverbs-utils"),  # its RDMA devices
    *("perftest", "python3-pyverbs", "libibverbs-dev", "librdmacm-dev"),  # what tests use there
)
# crc32_generic: rxe asks the crypto API for "crc32", and no modprobe serves this guest.
MODULES = "virtio_pci virtio_console 9pnet_virtio 9p overlay veth crc32_generic rdma_rxe rdma_ucm"
KERNEL_PACKAGE = os.environ.get("RDMA_VM_KERNEL_PKG") or "linux-image-amd64"
CACHE = Path(os.environ.get("RDMA_VM_CACHE") or Path.home() / ".cache/rdma-vm")
KERNEL, INITRD, STAMP = CACHE / "kernel", CACHE / "base.cpio", CACHE / "stamp"


def installed() -> bool:
    """Whether the cache holds a kernel with the modules this version of the rig loads."""
    return KERNEL.exists() and _stamp()[2] == MODULES


def install() -> None:
    """Get the Debian packages, as root; the kernel's is only unpacked into the cache, by anyone."""
    missing = _missing_packages()
    if not missing and _stamp()[1:] == [KERNEL_PACKAGE, MODULES]:
        say("already installed; kernel", _stamp()[0])
        return
    root = os.geteuid() == 0
    if missing and not root:
        raise RigError(f"missing on this host; as root, run: apt-get install {' '.join(missing)}")
    if root:
        _run("apt-get", "-qq", "update", check=False)
    if missing:
        _run("apt-get", "-qq", "install", "-y", "--no-install-recommends", *missing)
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        say("installed; kernel", _unpack_kernel(Path(scratch)))


def _run(*argv: str, check: bool = True, cwd: Path | None = None) -> None:
    subprocess.run(argv, check=check, cwd=cwd, env=_environment(), stdout=sys.stderr)


def _read(*argv: str) -> str:
    """The output of a command."""
    return subprocess.run(
        argv, check=True, env=_environment(), text=True, stdout=subprocess.PIPE
    ).stdout


def _environment() -> dict[str, str]:
    """Plain words, no questions, and depmod and modprobe within reach of an ordinary user."""
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    return {**os.environ, "PATH": path, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}


def _stamp() -> list[str]:
    """What the cache holds: the kernel's .deb, the package asked for, the modules."""
    lines = STAMP.read_text().split("\n") if STAMP.exists() else []
    return [*lines, "", "", ""][:3]


def _missing_packages() -> list[str]:
    query = ("dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *PACKAGES)
    # It fails, and says so, for a package that was never there.
    have = subprocess.run(query, check=False, text=True, capture_output=True).stdout.split("\n")
    return [package for package in PACKAGES if f"{package} installed" not in have]


def _unpack_kernel(scratch: Path) -> str:
    """Download the kernel's package and cut kernel and initrd from it; the .deb's name."""
    depends = _read("apt-cache", "depends", KERNEL_PACKAGE).split()[1:]
    images = (word for word in depends if word.startswith("linux-image-"))  # of a meta-package
    package = next(images, KERNEL_PACKAGE)
    _run("apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", package, cwd=scratch)
    deb = next(scratch.glob("*.deb"))
    root = scratch / "x"
    _run("dpkg-deb", "-x", str(deb), str(root))
    vmlinuz = next((root / "boot").glob("vmlinuz-*"))
    files = {
        KERNEL: _uncompressed(vmlinuz.read_bytes()),
        INITRD: _base_archive(_modules(root, vmlinuz.name.removeprefix("vmlinuz-"))),
        STAMP: "\n".join([deb.name, KERNEL_PACKAGE, MODULES]).encode(),
    }
    for target, data in files.items():  # the stamp last: it vouches for the others
        fresh = scratch / target.name
        fresh.write_bytes(data)
        fresh.replace(target)
    return deb.name


def _modules(root: Path, release: str) -> dict[str, bytes]:
    """Name to ELF bytes, in loading order. Cloud kernels fail here: they have no rxe, no 9p."""
    _run("depmod", "-b", str(root), release)
    options = ("-S", release, "-d", str(root), "--show-depends", "-a")
    order = _read("modprobe", *options, *MODULES.split())
    modules = {}
    for line in order.splitlines():
        if line.startswith("insmod "):
            file = Path(line.split()[1])
            blob = file.read_bytes()
            name = file.name.partition(".ko")[0]
            modules[name] = lzma.decompress(blob) if file.suffix == ".xz" else blob
    return modules


def _base_archive(modules: dict[str, bytes]) -> bytes:
    order = "\n".join([*modules, ""]).encode()
    return cpio.archive(
        [
            *(cpio.Entry(name, cpio.DIRECTORY) for name in ("bin", "m", "dev", "proc", "sys")),
            cpio.Entry("dev/console", cpio.DEVICE, device=(5, 1)),
            cpio.Entry("bin/busybox", cpio.SCRIPT, Path("/bin/busybox").read_bytes()),
            cpio.Entry("m/order", cpio.DATA, order),
            *(cpio.Entry(f"m/{name}", cpio.DATA, blob) for name, blob in modules.items()),
        ]
    )


def _uncompressed(image: bytes) -> bytes:
    """The ELF kernel in an xz'd bzImage: QEMU starts it through PVH, which saves 3 s under TCG.

    Offsets from the x86 boot protocol: setup_sects 0x1f1, payload_offset 0x248, payload_length.
    """
    offset, size = struct.unpack_from("<II", image, 0x248)
    payload = image[((image[0x1F1] or 4) + 1) * 512 + offset :][:size]
    if payload[:6] != b"\xfd7zXZ\0":
        return image
    return lzma.LZMADecompressor().decompress(payload)
