"""rdma-vm: run a command on a machine that has a real (Soft-RoCE) RDMA device.

Boots a throw-away QEMU guest with a stock Debian kernel, loads rdma_rxe and runs COMMAND as root in
the current directory with the caller's environment. The guest's root is the host's, read-only over
9p below a tmpfs overlay: every host program is there, and writes vanish with the guest. Only the
current directory and each --rw DIR are the host's own, writable; nothing else should change them
meanwhile (the guest caches them), and sockets and FIFOs cannot be made there (use /tmp). stdin is
empty; what COMMAND leaves running is killed.

rxe0 is on eth0 (10.77.0.1) and, with --devices 2, rxe1 on eth1 (10.77.0.2), the ends of one veth
pair: traffic between them takes a real IP/UDP path. COMMAND sees RDMA_VM=1, RDMA_VM_DEVICES,
RDMA_VM_ADDRS and RDMA_VM_GID_INDEX (that of the IPv4 RoCE v2 GID).

Exit status: COMMAND's own (128+N after signal N); 124 when --timeout, counted from COMMAND's start,
ran out; 125, with a message, when the rig failed.

Environment: RDMA_VM_CACHE (~/.cache/rdma-vm), RDMA_VM_ACCEL (kvm or tcg), RDMA_VM_VERBOSE=1 (times
and the console), RDMA_VM_KERNEL_PKG (linux-image-amd64; linux-image-6.12-amd64's rxe is more
faithful).
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import FrameType

from rdma_vm import image, machine
from rdma_vm.report import RigError, logs, say

RIG_FAILED = 125


def main() -> int:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _exit_on_signal)
    parser = _parser()
    arguments = parser.parse_args()
    command = arguments.command[arguments.command[:1] == ["--"] :]
    if not (command or arguments.install or arguments.check):
        parser.error("no COMMAND")
    try:
        return _act(arguments, tuple(command))
    except (OSError, subprocess.CalledProcessError, RigError) as error:
        say(error)
        return RIG_FAILED


def _act(arguments: argparse.Namespace, command: tuple[str, ...]) -> int:
    if arguments.install:
        image.install()
    if (arguments.check or command) and (reason := machine.usable()):
        raise RigError(f"{reason}: run 'rdma-vm --install' first")
    if not command:
        return 0
    guest = machine.Guest(
        command=command,
        devices=arguments.devices,
        memory_mib=arguments.mem,
        cpus=arguments.cpus,
        mtu_bytes=arguments.mtu,
        limit_s=arguments.timeout,
        writable=tuple(arguments.rw),
    )
    return _run(guest)


def _run(guest: machine.Guest) -> int:
    for accelerator in machine.accelerators():
        with tempfile.TemporaryDirectory(prefix="rdma-vm.") as directory:
            scratch = Path(directory)
            status = machine.boot(guest, accelerator, scratch)
            if status is not None:
                return status
            limit_s = machine.BOOT_LIMIT_S[accelerator]
            say(f"no COMMAND started within {limit_s:g} s ({accelerator})" + logs(scratch))
    raise RigError("giving up: no boot reached COMMAND")


def _exit_on_signal(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _parser() -> argparse.ArgumentParser:
    summary, _, manual = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        usage="rdma-vm [--install | --check] [OPTION]... [-- COMMAND...]",
        description=summary,
        epilog=manual,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--install", action="store_true", help="get the packages, as root, and a guest kernel")
    add("--check", action="store_true", help="only say whether a guest can be booted here")
    add("--devices", type=int, default=1, choices=(1, 2), help="RDMA devices (1)")
    add("--mem", type=int, default=2048, metavar="MIB", help="the guest's memory (2048)")
    add("--cpus", type=int, default=min(2, os.cpu_count() or 1), metavar="N")
    add("--mtu", type=int, default=9000, metavar="BYTES", help="of the veth pair (9000)")
    add("--timeout", type=float, default=600.0, metavar="S", help="COMMAND's limit (600)")
    add("--rw", action="append", default=[], metavar="DIR", help="one more writable directory")
    add("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser
