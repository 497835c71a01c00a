"""Files as a newc cpio archive, the form an initrd takes (the kernel's initramfs buffer format)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

DIRECTORY, SCRIPT, DATA, DEVICE = 0o40755, 0o100755, 0o100644, 0o20600


@dataclass(frozen=True, slots=True)
class Entry:
    """One archived file; `device` is (major, minor) of a character device."""

    name: str
    mode: int
    data: bytes = b""
    device: tuple[int, int] = (0, 0)


def archive(entries: Iterable[Entry]) -> bytes:
    """Pack `entries`; the kernel unpacks several archives, one after another."""
    out = bytearray()
    for inode, entry in enumerate([*entries, Entry("TRAILER!!!", 0)], 1):
        name = entry.name.encode() + b"\0"
        fields = (inode, entry.mode, 0, 0, 1, 0, len(entry.data), 0, 0, *entry.device, len(name), 0)
        out += b"070701" + "".join(f"{field:08x}" for field in fields).encode()
        for part in (name, entry.data):
            out += part + b"\0" * (-(len(out) + len(part)) % 4)
    return bytes(out)
