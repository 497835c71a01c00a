"""One throw-away QEMU guest around one command."""

from __future__ import annotations

import ctypes
import os
import resource
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

from rdma_vm import cpio, image
from rdma_vm.relay import Relay
from rdma_vm.report import RigError, logs, say

QEMU = "qemu-system-x86_64"
VERBOSE = bool(os.environ.get("RDMA_VM_VERBOSE"))
BOOT_LIMIT_S = {"kvm": 25.0, "tcg": 100.0}  # power-on to COMMAND's start, per attempt
GUEST_INIT = Path(__file__).with_name("guest-init.sh")
PR_SET_PDEATHSIG = 1
KERNEL_ARGUMENTS = (
    "console=ttyS0 loglevel=4 panic=-1 oops=panic nowatchdog mitigations=off tsc=reliable nokaslr"
)


@dataclass(frozen=True, slots=True)
class Guest:
    """What to boot, and the command to run in it."""

    command: tuple[str, ...]
    devices: int
    memory_mib: int
    cpus: int
    mtu_bytes: int
    limit_s: float
    writable: tuple[str, ...]

    @property
    def shared(self) -> list[str]:
        """The host's directories that the guest may write to; parents come first."""
        chosen = {os.path.realpath(path) for path in (os.getcwd(), *self.writable)} - {"/"}
        for path in chosen:
            if not Path(path).is_dir() or "," in path or "\n" in path:
                raise RigError(f"cannot share {path}")
        return sorted(chosen)


def usable() -> str:
    """Why no guest can be booted here; empty where one can."""
    if not shutil.which(QEMU):
        return f"no {QEMU}"
    return "" if image.installed() else f"no guest kernel in {image.CACHE}"


def accelerators() -> list[str]:
    """What to try, in order. Without vmx/svm, /dev/kvm (PVM) never gets a stock kernel up."""
    if chosen := os.environ.get("RDMA_VM_ACCEL"):
        return chosen.split()
    cpuinfo = Path("/proc/cpuinfo").read_text().splitlines()
    flags = next((line.split() for line in cpuinfo if line.startswith("flags")), [])
    kvm = os.access("/dev/kvm", os.R_OK | os.W_OK) and ("vmx" in flags or "svm" in flags)
    return ["kvm", "tcg"] if kvm else ["tcg", "tcg"]


def boot(guest: Guest, accelerator: str, scratch: Path) -> int | None:
    """Boot once. COMMAND's status, or None where the guest never started it."""
    mark = secrets.token_hex(8)
    shared = guest.shared
    initrd = scratch / "initrd"
    initrd.write_bytes(image.INITRD.read_bytes() + _run_archive(guest, shared, mark))
    ours, theirs = zip(*(socket.socketpair() for _ in range(3)), strict=True)
    with (scratch / "qemu").open("wb") as messages:
        vm = subprocess.Popen(
            _qemu_argv(guest, accelerator, shared, scratch, [end.fileno() for end in theirs]),
            stdin=subprocess.DEVNULL,
            stdout=messages,
            stderr=subprocess.STDOUT,
            preexec_fn=_prepare_child,  # noqa: PLW1509 - this program has one thread
            pass_fds=[end.fileno() for end in theirs],
        )
    try:
        for end in theirs:
            end.close()
        end_mark = b"\0" + mark.encode()
        relay = Relay(ours, BOOT_LIMIT_S[accelerator], guest.limit_s, end_mark, scratch)
        status = relay.run()
        if VERBOSE:
            say(relay.times)
        return status
    finally:
        vm.kill()
        vm.wait()
        if VERBOSE:
            say("end of run" + logs(scratch))


def _prepare_child() -> None:
    """QEMU never outlives us, and its 9p server may open many files."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _run_archive(guest: Guest, shared: list[str], mark: str) -> bytes:
    """What this run adds to the cached initrd: the init script, its settings, the command."""
    numbers = range(guest.devices)
    environment = os.environ | {
        "RDMA_VM": "1",
        "RDMA_VM_GID_INDEX": "1",
        "RDMA_VM_DEVICES": " ".join(f"rxe{n}" for n in numbers),
        "RDMA_VM_ADDRS": " ".join(f"10.77.0.{n + 1}" for n in numbers),
    }
    command = [
        *("exec", "chroot", "/new", "/usr/bin/env", "-i"),
        *(f"{name}={value}" for name, value in environment.items()),
        *("/bin/sh", "-c", 'cd "$0" && exec "$@"', str(Path.cwd())),
        *guest.command,
    ]
    settings = {
        "MTU": guest.mtu_bytes,
        "LIMIT": guest.limit_s,
        "EOS": "\\000" + mark,
        "NAME": socket.gethostname(),
        "DEVICES": " ".join(str(n) for n in numbers),
    }
    texts = {
        "init": GUEST_INIT.read_text(),
        "rw": "".join(f"{path}\n" for path in shared),
        "run": shlex.join(command) + "\n",
        "conf": "".join(f"{name}={shlex.quote(str(v))}\n" for name, v in settings.items()),
    }
    return cpio.archive(
        cpio.Entry(name, cpio.SCRIPT, os.fsencode(text)) for name, text in texts.items()
    )


def _qemu_argv(
    guest: Guest, accelerator: str, shared: list[str], scratch: Path, ports: list[int]
) -> list[str]:
    kvm = accelerator == "kvm"
    argv = [
        *(QEMU, "-accel", "kvm" if kvm else "tcg,thread=multi"),
        # Under TCG "rep movsb" copies a byte at a time: without ERMS/FSRM rxe is twice as fast; and
        # a carry-less multiplication is a call: without it CRC64NVME is twenty times as fast.
        *("-cpu", "host" if kvm else "max,-la57,-erms,-fsrm,-pclmulqdq", "-machine", "q35"),
        *("-smp", str(guest.cpus), "-m", str(guest.memory_mib)),
        *("-nodefaults", "-display", "none", "-no-reboot"),
        *("-kernel", str(image.KERNEL), "-initrd", str(scratch / "initrd")),
        *("-serial", f"file:{scratch}/console", "-append", KERNEL_ARGUMENTS),
        *("-device", "virtio-serial-pci"),  # before -virtfs, so that its ports are /dev/vport0p*
    ]
    mounts = [("/", "host,readonly=on"), *((path, f"rw{n}") for n, path in enumerate(shared))]
    for path, tag in mounts:
        options = f"local,path={path},security_model=none,multidevs=remap,mount_tag={tag}"
        argv += ["-virtfs", options]
    for number, port in enumerate(ports, 1):
        argv += ["-chardev", f"socket,id=c{number},fd={port}"]
        argv += ["-device", f"virtserialport,chardev=c{number},nr={number}"]
    return argv
