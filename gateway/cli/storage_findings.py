"""Whether this host has what the gateway's settings ask of it: its storage, and its keys."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from gateway.cli import keyfile, upstream_findings
from gateway.cli.diagnosis import Finding, Level
from gateway.config import GIB, Config

_SCARCE_BYTES = 1 * GIB


def look(config: Config) -> Iterator[Finding]:
    """The storage's directories, or its service, and the file of keys where one is named.

    Changes nothing; a service is asked in a scratch bucket (`storage.upstream.probe`).
    """
    match config.storage.driver:
        case "store":
            yield from _directory("store.root", config.store.root, made=True)
        case "tree":
            read_only = config.tree.read_only
            yield from _directory("tree.root", config.tree.root, made=False, read_only=read_only)
        case "upstream":
            yield from upstream_findings.look(config)
    if config.credentials_file:
        yield _keys(Path(config.credentials_file))


def _directory(
    setting: str, root: Path, *, made: bool, read_only: bool = False
) -> Iterator[Finding]:
    """A directory that is there, or that the gateway will make."""
    there = root
    while made and not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        yield Finding(
            Level.BROKEN,
            "storage",
            f"{setting} = {root}: {there} is no directory",
            f"make it, or set {setting}",
        )
    elif not os.access(there, os.R_OK | os.X_OK | (0 if read_only else os.W_OK)):
        yield Finding(
            Level.BROKEN,
            "storage",
            f"{setting} = {root}: this user may not {'read' if read_only else 'write to'} {there}",
            f"run this as the gateway's user, or chown {there}",
        )
    else:
        yield _space(setting, root, there, read_only=read_only)


def _space(setting: str, root: Path, there: Path, *, read_only: bool) -> Finding:
    free_bytes = shutil.disk_usage(there).free
    state = "there" if there == root else "not there yet"
    detail = f"{setting} = {root}, {state}, {free_bytes / GIB:.1f} GiB free"
    if free_bytes < _SCARCE_BYTES and not read_only:
        return Finding(Level.NOTE, "storage", detail, "make room: a full disk refuses every PUT")
    return Finding(Level.GOOD, "storage", detail)


def _keys(path: Path) -> Finding:
    try:
        keys = keyfile.read_keys(path)
    except keyfile.KeyFileError as error:
        return Finding(Level.BROKEN, "keys", str(error), "see `s3rdma keys --help`")
    return Finding(Level.GOOD, "keys", f"{path} holds {len(keys)}")
