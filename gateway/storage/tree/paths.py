"""A key as a path below its bucket's directory, and the keys that no path can hold."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.errors import ClientError, S3Code

MAX_SEGMENT_BYTES = 255
"""NAME_MAX of nearly every file system (limits.h); one that allows less says so itself."""


@dataclass(frozen=True, slots=True)
class KeyPath:
    """Where a key's object is.

    Attributes:
        parents: the directories on the way, from the bucket's on.
        name: the last segment.
        directory: the key ends in "/": the object is a directory that is marked as one.
    """

    parents: tuple[bytes, ...]
    name: bytes
    directory: bool = False

    @property
    def path(self) -> bytes:
        """Relative to the bucket's directory."""
        return b"/".join((*self.parents, self.name))


def find_path(key: str, meta_name: bytes) -> KeyPath | None:
    """Where to look for a key; None where no object can be."""
    segments = key.encode().removesuffix(b"/").split(b"/")
    if _obstacle(segments, meta_name):
        return None
    return KeyPath(tuple(segments[:-1]), segments[-1], key.endswith("/"))


def require_path(key: str, meta_name: bytes) -> KeyPath:
    """Where to put a key's object.

    Raises:
        ClientError: InvalidArgument that names what a path can't hold.
    """
    found = find_path(key, meta_name)
    if found is None:
        segments = key.encode().removesuffix(b"/").split(b"/")
        raise unholdable(key, _obstacle(segments, meta_name))
    return found


def unholdable(key: str, obstacle: str) -> ClientError:
    """400: keys are paths here, and this one is none."""
    return ClientError(
        S3Code.INVALID_ARGUMENT,
        f"Keys are paths of files here, and {obstacle}; choose another key.",
        details={"ArgumentName": "key", "ArgumentValue": key},
    )


def _obstacle(segments: list[bytes], meta_name: bytes) -> str:
    """What keeps the segments from being a path, in words; "" where nothing does."""
    if segments[0] == meta_name:
        return f"the name {meta_name.decode()} is the gateway's own (tree.meta_name)"
    for segment in segments:
        if not segment:
            return "a path has no empty segment (a slash at its start, or two in a row)"
        if segment in (b".", b".."):
            return 'a path has no segment "." or ".."'
        if b"\0" in segment:
            return "a path has no NUL character"
        if len(segment) > MAX_SEGMENT_BYTES:
            return f"a segment has {len(segment)} bytes of {MAX_SEGMENT_BYTES} at most"
    return ""
