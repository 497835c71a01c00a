"""config.load: sources and their order, every type of value, and what a mistake is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config import GIB, KIB, MIB, Config, Durability, LaneClass, format_size
from gateway.config.load import ConfigError, load, parse_listen, parse_size, settings


def toml(directory: Path, text: str) -> Path:
    file = directory / "s3rdma.toml"
    file.write_text(text)
    return file


def as_text(value: object) -> str:
    """A default as one would write it into the environment."""
    match value:
        case tuple():
            return ",".join(str(one) for one in value)
        case Durability():
            return str(value.value)
    return str(value)


def test_load__no_source__is_the_defaults() -> None:
    assert load() == Config()


def test_own_root__by_the_driver__with_the_objects() -> None:
    flags = {"store.root": "/srv/store", "tree.root": "/srv/tree"}
    assert load(flags=flags).own_root == Path("/srv/store")
    of_tree = load(flags={**flags, "storage.driver": "tree"})
    assert of_tree.own_root == Path("/srv/tree/.s3rdma")


def test_load__all_sources__each_wins_over_the_one_before(tmp_path: Path) -> None:
    file = toml(
        tmp_path,
        """
        [http]
        port = 1
        region = "file"
        host = "file"
        [http.limits]
        max_headers = 7
        """,
    )
    environ = {"S3RDMA_HTTP_REGION": "environment", "S3RDMA_HTTP_HOST": "environment"}
    config = load(file, environ, {"http.host": "flag"})
    assert (config.http.port, config.http.region, config.http.host) == (1, "environment", "flag")
    assert config.http.limits.max_headers == 7


def test_load__every_type__in_a_file(tmp_path: Path) -> None:
    file = toml(
        tmp_path,
        """
        listen = "[::1]:9001"
        access_key = "key"
        secret_key = "secret"
        [http]
        domains = ["s3.example", "other.example"]
        limits.max_object_bytes = "64MiB"
        limits.idle_timeout_s = 5
        [rdma]
        fabric = "off"
        receive_sge = true
        lanes = ["6x64MiB", "12x8MiB"]
        [store]
        root = "/srv/objects"
        durability = "data"
        """,
    )
    config = load(file)
    assert (config.http.host, config.http.port) == ("::1", 9001)
    assert config.http.domains == ("s3.example", "other.example")
    assert config.http.limits.max_object_bytes == 64 * MIB
    assert config.http.limits.idle_timeout_s == 5.0
    assert config.rdma.receive_sge is True
    assert config.rdma.lanes == (LaneClass(6, 64 * MIB), LaneClass(12, 8 * MIB))
    assert config.store.root == Path("/srv/objects")
    assert config.store.durability is Durability.DATA
    assert (config.access_key, config.secret_key) == ("key", "secret")


def test_load__every_type__in_the_environment() -> None:
    config = load(
        environ={
            "S3RDMA_LISTEN": "0.0.0.0:80",
            "S3RDMA_STORE": "/srv",
            "S3RDMA_ACCESS_KEY": "key",
            "S3RDMA_SECRET_KEY": "secret",
            "S3RDMA_HTTP_DOMAINS": "a.example, b.example",
            "S3RDMA_HTTP_LIMITS_HEADER_TIMEOUT_S": "2.5",
            "S3RDMA_RDMA_RECEIVE_SGE": "yes",
            "S3RDMA_RDMA_LANES": "2x1MiB",
            "S3RDMA_RDMA_GID_INDEX": "3",
            "S3RDMA_STORE_DURABILITY": "none",
            "S3RDMA_ENDPOINT_URL": "the client's own",
            "HOME": "/root",
        }
    )
    assert (config.http.host, config.http.port) == ("0.0.0.0", 80)
    assert config.http.domains == ("a.example", "b.example")
    assert config.http.limits.header_timeout_s == 2.5
    assert (config.rdma.receive_sge, config.rdma.gid_index) == (True, 3)
    assert config.rdma.lanes == (LaneClass(2, MIB),)
    assert (config.store.root, config.store.durability) == (Path("/srv"), Durability.NONE)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"S3RDMA_HTTP_PORT": "x"}, "S3RDMA_HTTP_PORT: 'x' is not a number"),
        ({"S3RDMA_HTTP_PORT": "65536"}, "65536 is out of range (at least 0, at most 65535)"),
        ({"S3RDMA_HTTP_LIMITS_MAX_HEADERS": "0"}, "0 is out of range (at least 1)"),
        ({"S3RDMA_HTTP_LIMITS_IDLE_TIMEOUT_S": "nan"}, "nan is out of range"),
        ({"S3RDMA_HTTP_LIMITS_MAX_XML_BYTES": "2MB"}, "'2MB' is no size"),
        ({"S3RDMA_RDMA_FABRIC": "siw"}, "'siw' is none of auto, verbs, soft, off"),
        ({"S3RDMA_STORE_DURABILITY": "half"}, "'half' is none of full, data, none"),
        ({"S3RDMA_RDMA_RECEIVE_SGE": "maybe"}, "'maybe' is neither true nor false"),
        ({"S3RDMA_RDMA_LANES": "64MiB"}, "'64mib' is not COUNTxSIZE"),
        ({"S3RDMA_RDMA_LANES": "1x2GiB"}, "a lane is 4KiB to 2147483647 bytes long"),
        ({"S3RDMA_RDMA_LANES": ""}, "rdma.lanes is empty"),
        ({"S3RDMA_STORE": ""}, "S3RDMA_STORE: "),
        ({"S3RDMA_LISTEN": "localhost"}, "'localhost' is not HOST:PORT"),
        ({"S3RDMA_LISTEN": "localhost:99999"}, "S3RDMA_LISTEN: 99999 is out of range"),
        ({"S3RDMA_ACCESS_KEY": "key"}, "access_key and secret_key go together"),
        ({"S3RDMA_HTTP_PROT": "1"}, "unknown variable S3RDMA_HTTP_PROT; did you mean"),
    ],
)
def test_load__unusable_value__names_source_and_rule(
    environ: dict[str, str], expected: str
) -> None:
    with pytest.raises(ConfigError) as failure:
        load(environ=environ)
    assert expected.lower() in str(failure.value).lower()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[http]\nprot = 1", "unknown setting http.prot; did you mean http.port?"),
        ("[http]\nport = '1x'", "http.port: '1x' is not a number"),
        ("[http]\nport = 1.5", "http.port: 1.5 is not of type int"),
        ("[http]\nport = true", "http.port: True is not of type int"),
        ("[http]\ndomains = [1]", "http.domains: a list of texts"),
        ("http = 1", "unknown setting http"),
        ("[http", "s3rdma.toml: "),
    ],
)
def test_load__unusable_file__names_file_and_setting(
    tmp_path: Path, text: str, expected: str
) -> None:
    with pytest.raises(ConfigError) as failure:
        load(toml(tmp_path, text))
    assert expected in str(failure.value)
    assert "s3rdma.toml" in str(failure.value)


def test_load__missing_file__says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: "):
        load(tmp_path / "none.toml")


def test_load__error_about_a_flag__shows_the_flag() -> None:
    with pytest.raises(ConfigError, match=r"^--store-io-threads: "):
        load(flags={"store.io_threads": "many"})


def test_config__shown__hides_the_secret() -> None:
    config = load(environ={"S3RDMA_ACCESS_KEY": "key", "S3RDMA_SECRET_KEY": "hush"})
    assert "hush" not in repr(config)


def test_settings__all__have_help_and_a_default_in_their_own_range() -> None:
    found = list(settings())
    assert len({setting.option for setting in found}) == len(found)
    for setting in found:
        assert setting.help, setting.path
        assert setting.parse(as_text(setting.default), setting.path) == setting.default


def test_settings__secrets__have_no_flag() -> None:
    kept = [setting.path for setting in settings() if not setting.flag]
    assert kept == ["upstream.secret_key", "secret_key"]


@pytest.mark.parametrize(
    ("text", "length_bytes"),
    [("0", 0), ("4096", 4096), ("64KiB", 64 * KIB), ("5 GiB", 5 * GIB), ("1mi", MIB), ("7B", 7)],
)
def test_parse_size__units__are_binary(text: str, length_bytes: int) -> None:
    assert parse_size(text) == length_bytes


@given(st.integers(min_value=0, max_value=2**60))
def test_format_size__any__is_read_back(length_bytes: int) -> None:
    assert parse_size(format_size(length_bytes)) == length_bytes


@pytest.mark.parametrize("text", ["", ":80", "host:", "host:-1", "host:٣", "host"])
def test_parse_listen__not_an_address__is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        parse_listen(text)
