"""openat2(2): opening a path so that nothing on it can lead out of a directory.

Neither ".." nor a symbolic link, nor a rename while the kernel walks, gets past RESOLVE_BENEATH;
a check before the open, or one component at a time, would leave a gap between the two.
"""

from __future__ import annotations

import ctypes
import errno
import os

# linux/openat2.h; the number is the same on every architecture but alpha.
_SYS_OPENAT2 = 437
_RESOLVE_NO_XDEV = 0x01
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_BENEATH = 0x08

_ATTEMPTS = 32
"""EAGAIN says that a rename came between and the kernel could not be sure: ask again."""

_libc = ctypes.CDLL(None, use_errno=True)


class _OpenHow(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


def open_beneath(
    directory: int, path: bytes, flags: int, *, follow: bool = False, same_mount: bool = False
) -> int:
    """Open what exists at `path` below an open directory.

    Args:
        directory: a descriptor of it.
        path: relative, without NUL; b"." is the directory itself.
        flags: open(2)'s, but none that creates; O_CLOEXEC is added.
        follow: symbolic links that stay beneath are followed, else none is.
        same_mount: a mount point on the way is an error, EXDEV.

    Returns:
        A descriptor that the caller closes.

    Raises:
        OSError: as open(2); ELOOP at a link that is not followed, EXDEV where the path leaves,
            ENOSYS before Linux 5.6.
    """
    resolve = _RESOLVE_BENEATH | (_RESOLVE_NO_MAGICLINKS if follow else _RESOLVE_NO_SYMLINKS)
    resolve |= _RESOLVE_NO_XDEV if same_mount else 0
    how = _OpenHow(flags | os.O_CLOEXEC, 0, resolve)
    for _ in range(_ATTEMPTS):
        fd: int = _libc.syscall(
            _SYS_OPENAT2, directory, path, ctypes.byref(how), ctypes.sizeof(how)
        )
        if fd >= 0:
            return fd
        number = ctypes.get_errno()
        if number not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(number, os.strerror(number), os.fsdecode(path))
