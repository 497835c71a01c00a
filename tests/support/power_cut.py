"""What a disk holds after the power went, from the record of what a process asked of it.

A file system owes only what was synced: a file's bytes and length to fsync or fdatasync of the
file, the names in a directory to fsync of the directory. The rest may have been kept or not, so a
crash is judged by several images: nothing unsynced was kept; only names; only bytes.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_HEAD = struct.Struct("<QQIc")


@dataclass(slots=True, eq=False)
class File:
    """A file's bytes as the process sees them, and as the disk has them for sure."""

    now: bytearray = field(default_factory=bytearray)
    synced: bytes = b""

    def resize(self, length: int) -> None:
        self.now[length:] = bytes(max(0, length - len(self.now)))

    def write(self, at: int, data: bytes) -> None:
        if at > len(self.now):
            self.resize(at)
        self.now[at : at + len(data)] = data

    def sync(self) -> None:
        self.synced = bytes(self.now)


@dataclass(slots=True, eq=False)
class Directory:
    """The names in a directory, and those that the disk has for sure."""

    now: dict[str, Node] = field(default_factory=dict)
    synced: dict[str, Node] = field(default_factory=dict)

    def sync(self) -> None:
        self.synced = dict(self.now)


@dataclass(slots=True, eq=False)
class Node:
    """A file or a directory, and what is said of it: attributes, and the time of a file."""

    content: File | Directory
    now: dict[str, bytes] = field(default_factory=dict)
    synced: dict[str, bytes] = field(default_factory=dict)

    def sync(self) -> None:
        self.content.sync()
        self.synced = dict(self.now)


TIME = "time"  # beside the names of extended attributes, which begin with "user."


@dataclass(frozen=True, slots=True)
class Record:
    """One change: its kind is a letter of `enum record_kind` in fault_shim.c."""

    kind: bytes
    inode: int
    at: int
    data: bytes

    @property
    def path(self) -> Path:
        return Path(self.data.decode())


def records(log: Path) -> Iterator[Record]:
    data = log.read_bytes() if log.exists() else b""
    place = 0
    while place < len(data):
        inode, at, length, kind = _HEAD.unpack_from(data, place)
        place += _HEAD.size
        yield Record(kind, inode, at, data[place : place + length])
        place += length


class Disk:
    """A directory, all of it synced, and what was recorded since."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._inodes: dict[int, Node] = {}
        self._top = self._read(root)

    def _read(self, path: Path) -> Node:
        status = path.stat()
        if path.is_dir():
            names = {each.name: self._read(each) for each in sorted(path.iterdir())}
            node = Node(Directory(names))
        else:
            node = Node(File(bytearray(path.read_bytes())))
            node.now[TIME] = b"%d" % status.st_mtime_ns
        node.now |= {name: os.getxattr(path, name) for name in os.listxattr(path)}
        node.sync()
        self._inodes[status.st_ino] = node
        return node

    def replay(self, log: Path) -> None:
        for record in records(log):
            self._apply(record)

    def _apply(self, record: Record) -> None:
        match record.kind:
            case b"c" | b"t" | b"d":
                made = Directory() if record.kind == b"d" else File()
                self._inodes[record.inode] = Node(made)
                if record.kind != b"t":
                    self._name(record.path, self._inodes[record.inode])
            case b"l":
                self._name(record.path, self._inodes[record.inode])
            case b"u":
                self._unname(record.path)
            case b"r":
                old, new = (Path(text) for text in record.data.decode().split("\0"))
                self._name(new, self._unname(old))
            case b"w":
                self._file(record).write(record.at, record.data)
            case b"s":
                self._file(record).resize(record.at)
            case b"g":
                self._file(record).resize(max(record.at, len(self._file(record).now)))
            case b"m":
                self._inodes[record.inode].now[TIME] = b"%d" % record.at
            case b"x":
                name, _, value = record.data.partition(b"\0")
                self._inodes[record.inode].now[name.decode()] = value
            case b"y":
                del self._inodes[record.inode].now[record.data.decode()]
            case b"f":
                self._inodes[record.inode].sync()

    def _file(self, record: Record) -> File:
        file = self._inodes[record.inode].content
        assert isinstance(file, File)
        return file

    def _directory(self, path: Path) -> Directory:
        node = self._top
        for name in path.relative_to(self._root).parts:
            assert isinstance(node.content, Directory)
            node = node.content.now[name]
        assert isinstance(node.content, Directory)
        return node.content

    def _name(self, path: Path, node: Node) -> None:
        self._directory(path.parent).now[path.name] = node

    def _unname(self, path: Path) -> Node:
        return self._directory(path.parent).now.pop(path.name)

    def image(self, target: Path, *, names: bool, data: bool) -> bytes:
        """Write what may be left: what was synced, and unsynced names or bytes if they are kept.

        Returns:
            A digest of all of it: equal disks have equal ones.
        """
        digest = hashlib.sha256()
        self._write(self._top, target, digest, names=names, data=data)
        return digest.digest()

    def _write(self, node: Node, place: Path, digest: Any, *, names: bool, data: bool) -> None:
        content = node.content
        if isinstance(content, Directory):
            place.mkdir(mode=0o700, exist_ok=True)
            kept = content.now if names else content.synced
            for name, below in sorted(kept.items()):
                digest.update(f"{name}\0".encode())
                self._write(below, place / name, digest, names=names, data=data)
            digest.update(b"\0")
        else:
            # A file that was only made longer, by a name's metadata, reads as zeros.
            lost = bytes(max(0, len(content.now) - len(content.synced))) if names else b""
            written = bytes(content.now) if data else content.synced + lost
            digest.update(hashlib.sha256(written).digest())
            place.write_bytes(written)
        said = node.now if names else node.synced
        digest.update(repr(sorted(said.items())).encode())
        for name, value in said.items():
            if name != TIME:
                os.setxattr(place, name, value)
        if TIME in said:
            os.utime(place, ns=(int(said[TIME]), int(said[TIME])))
