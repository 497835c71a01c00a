"""Where the settings come from, and what is wrong with them.

Each source over the one before: the defaults, a TOML file, environment variables
(``S3RDMA_<SECTION>_<NAME>``, with short ones for the common few), command-line flags. An unknown
name is refused with its nearest neighbour: a setting that silently does nothing is worse than none.
"""

from __future__ import annotations

import difflib
import re
import tomllib
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gateway.config import GIB, KIB, MIB, TIB, Config, LaneClass


class ConfigError(Exception):
    """A setting that can't be used; the text names its source, its name and what is allowed."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One field of `Config`, found by its dotted path.

    Attributes:
        path: ``http.limits.max_line_bytes``.
        kind: the field's type.
        default / help / flag: as declared.
        secret: whether the value may never be shown.
    """

    path: str
    kind: Any
    default: object
    help: str
    flag: bool
    low: float
    high: float
    choices: tuple[str, ...]
    secret: bool = False

    @property
    def section(self) -> str:
        """The path without the name; "" for the few at the top."""
        return self.path.rpartition(".")[0]

    @property
    def option(self) -> str:
        """The command-line flag."""
        return _option(self.path)

    @property
    def variable(self) -> str:
        """The environment variable."""
        return "S3RDMA_" + self.path.replace(".", "_").upper()

    def parse(self, value: object, source: str) -> object:
        """Text or a TOML value as the field's type.

        Args:
            value: what `source` held.
            source: for the error text: "--http-port", "S3RDMA_HTTP_PORT", "s3rdma.toml: http.port".

        Raises:
            ConfigError: another type, out of range, or not among the choices.
        """
        try:
            parsed = _convert(self.kind, self.path, value)
        except (ValueError, TypeError) as reason:
            raise ConfigError(f"{source}: {reason}") from reason
        if self.kind is bool:
            return parsed
        if isinstance(parsed, int | float) and not self.low <= parsed <= self.high:
            bound = f"at least {self.low:g}" + (
                "" if self.high == inf else f", at most {self.high:g}"
            )
            raise ConfigError(f"{source}: {parsed} is out of range ({bound})")
        if self.choices and parsed not in self.choices:
            raise ConfigError(f"{source}: {parsed!r} is none of {', '.join(self.choices)}")
        return parsed


def settings(kind: type = Config, prefix: str = "") -> Iterator[Setting]:
    """Every setting, in the order of the fields."""
    kinds = typing.get_type_hints(kind)
    for one in fields(kind):
        path = prefix + one.name
        if is_dataclass(kinds[one.name]):
            yield from settings(kinds[one.name], path + ".")
        else:
            yield Setting(
                path=path,
                kind=kinds[one.name],
                default=one.default,
                secret=not one.repr,
                **one.metadata,
            )


_SIZE = re.compile(r"(\d+)\s*([KMGT]i)?B?", re.IGNORECASE)
_UNITS = MappingProxyType({"": 1, "ki": KIB, "mi": MIB, "gi": GIB, "ti": TIB})
_WORDS = MappingProxyType(
    {"true": True, "yes": True, "on": True, "1": True}
    | {"false": False, "no": False, "off": False, "0": False}
)


def parse_size(text: str) -> int:
    """``64MiB``, ``5 GiB``, ``4096``: bytes. Raises ValueError."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no size; write bytes, or KiB, MiB, GiB, TiB behind a number")
    return int(found[1]) * _UNITS[(found[2] or "").lower()]


def parse_listen(text: str) -> tuple[str, int]:
    """``HOST:PORT`` or ``[V6]:PORT``. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit()):
        raise ValueError(f"{text!r} is not HOST:PORT, as in 127.0.0.1:9000 or [::1]:9000")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _parse_lane(text: str) -> LaneClass:
    count, _, size = text.strip().lower().partition("x")
    if not (count.isascii() and count.isdigit() and int(count) > 0 and size):
        raise ValueError(f"{text!r} is not COUNTxSIZE, as in 6x64MiB")
    length_bytes = parse_size(size)
    if not 4 * KIB <= length_bytes < 2**31:
        raise ValueError(f"{text!r}: a lane is 4KiB to 2147483647 bytes long")
    return LaneClass(int(count), length_bytes)


def _convert(kind: Any, path: str, value: object) -> object:
    """`value` as `kind`; raises ValueError or TypeError with a text for the user."""
    if typing.get_origin(kind) is tuple:
        words = value.split(",") if isinstance(value, str) else value
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise TypeError("a list of texts, or one text with commas, is needed")
        one = _parse_lane if LaneClass in typing.get_args(kind) else str.strip
        return tuple(one(word) for word in words if word.strip())
    if isinstance(value, str) and kind in (int, float, bool):
        return _from_text(kind, path, value)
    if isinstance(kind, type) and issubclass(kind, Enum):
        try:
            return kind(value)
        except ValueError:
            allowed = ", ".join(one.value for one in kind)
            raise ValueError(f"{value!r} is none of {allowed}") from None
    if kind is Path and isinstance(value, str) and value:
        return Path(value)
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise TypeError(f"{value!r} is not of type {kind.__name__}")
    return value


def _from_text(kind: type, path: str, text: str) -> object:
    if kind is bool:
        if text.strip().lower() not in _WORDS:
            raise ValueError(f"{text!r} is neither true nor false")
        return _WORDS[text.strip().lower()]
    if kind is int and path.endswith("_bytes"):
        return parse_size(text)
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None


_LISTEN, _STORE = "listen", "store"  # the short names for http.host with http.port, and store.root


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration, and where each of its values that is no default came from.

    Attributes:
        sources: dotted path to "FILE: path", a variable's name, or a flag.
    """

    config: Config
    sources: Mapping[str, str]


def load(
    file: Path | None = None,
    environ: Mapping[str, str] = MappingProxyType({}),
    flags: Mapping[str, str] = MappingProxyType({}),
) -> Config:
    """All sources as one `Config`, every value checked.

    Args:
        file: a TOML file, or None.
        environ: the process's variables; those that don't begin with ``S3RDMA_`` are ignored.
        flags: dotted path (or "listen", "store") to text; only what was given.

    Raises:
        ConfigError: an unreadable file, an unknown name, a value that can't be used.
    """
    return load_with_sources(file, environ, flags).config


def load_with_sources(
    file: Path | None,
    environ: Mapping[str, str],
    flags: Mapping[str, str] = MappingProxyType({}),
) -> Loaded:
    """As `load`, and where each value came from."""
    known = {setting.path: setting for setting in settings()}
    values: dict[str, object] = {}
    sources: dict[str, str] = {}
    for path, value, source in (
        *_from_file(file, known),
        *_from_environ(environ, known),
        *((path, text, _option(path)) for path, text in flags.items()),
    ):
        if path == _LISTEN:
            try:
                values["http.host"], port = parse_listen(str(value))
            except ValueError as reason:
                raise ConfigError(f"{source}: {reason}") from reason
            values["http.port"] = known["http.port"].parse(port, source)
            sources["http.host"] = sources["http.port"] = source
        else:
            setting = known["store.root" if path == _STORE else path]
            values[setting.path] = setting.parse(value, source)
            sources[setting.path] = source
    config: Config = _build(Config, values, "")
    if bool(config.access_key) != bool(config.secret_key):
        raise ConfigError(
            "access_key and secret_key go together: set both (S3RDMA_ACCESS_KEY and "
            "S3RDMA_SECRET_KEY), or none and a pair is made"
        )
    if config.rdma.fabric != "off" and not config.rdma.lanes:
        raise ConfigError("rdma.lanes is empty: name at least one, as in 6x64MiB, or fabric = off")
    return Loaded(config, sources)


def _option(path: str) -> str:
    return "--" + re.sub(r"[._]", "-", path)


def _build(kind: Any, values: Mapping[str, object], prefix: str) -> Any:
    kinds = typing.get_type_hints(kind)
    nested = {
        name: _build(kinds[name], values, f"{prefix}{name}.")
        for name in kinds
        if is_dataclass(kinds[name])
    }
    own = {name: values[prefix + name] for name in kinds if prefix + name in values}
    return kind(**nested, **own)


def _from_file(
    file: Path | None, known: Mapping[str, Setting]
) -> Iterator[tuple[str, object, str]]:
    if file is None:
        return
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as reason:
        raise ConfigError(f"{file}: {reason}") from reason
    for path, value in _flatten(table):
        if path not in known and path != _LISTEN:
            raise ConfigError(f"{file}: unknown setting {path}{_nearest(path, known)}")
        yield path, value, f"{file}: {path}"


def _flatten(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _from_environ(
    environ: Mapping[str, str], known: Mapping[str, Setting]
) -> Iterator[tuple[str, object, str]]:
    names = {setting.variable: path for path, setting in known.items()}
    names |= {"S3RDMA_LISTEN": _LISTEN, "S3RDMA_STORE": _STORE}
    sections = tuple({f"S3RDMA_{path.partition('.')[0].upper()}_" for path in known if "." in path})
    for variable, text in environ.items():
        if variable in names:
            yield names[variable], text, variable
        elif variable.startswith(sections):
            raise ConfigError(f"unknown variable {variable}{_nearest(variable, names)}")


def _nearest(name: str, names: Mapping[str, object]) -> str:
    found = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {found[0]}?" if found else ""
