"""Build `gateway._dataplane`: the C core as a cffi extension in API mode.

`setup.py` calls this through `cffi_modules`. libibverbs' headers are needed to build
(Debian: libibverbs-dev), the library itself only to run: the core opens it with dlopen.
libdeflate (libdeflate-dev) becomes a part of the extension: nothing of it is needed to run.
"""

from __future__ import annotations

from pathlib import Path

from cffi import FFI

HERE = Path(__file__).resolve().parent
HEADER = HERE / "include" / "dataplane.h"


def declarations(header: str) -> str:
    """The header as cffi reads it: without preprocessor lines, of which it has no need."""
    return "".join(line for line in header.splitlines(keepends=True) if not line.startswith("#"))


def sources() -> list[str]:
    """All C files, relative to the project's root as setuptools wants them."""
    return sorted(str(path.relative_to(HERE.parent)) for path in (HERE / "src").glob("*.c"))


ffibuilder = FFI()
ffibuilder.cdef(declarations(HEADER.read_text(encoding="utf-8")))
ffibuilder.set_source(
    "gateway._dataplane",
    '#include "dataplane.h"',
    sources=sources(),
    include_dirs=[f"{HERE.name}/include"],
    define_macros=[("_GNU_SOURCE", "1")],
    undef_macros=["NDEBUG"],  # an assertion is a caller's bug: better to stop than to go on
    extra_compile_args=["-std=gnu11", "-O2", "-fvisibility=hidden", "-pthread"],
    extra_link_args=["-pthread", "-l:libdeflate.a"],
    libraries=["dl"],
)
