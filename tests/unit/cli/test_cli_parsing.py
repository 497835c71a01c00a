"""What the command line understands, and the exit codes of what it doesn't."""

from __future__ import annotations

import argparse

import pytest

from gateway.cli import main, make_parser, options, remote
from gateway.cli.objects import report
from gateway.client import RdmaMode, RdmaProtocol, Transfer, TransferPath


@pytest.fixture(autouse=True)
def _no_ambient_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("S3RDMA_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("text", "bucket", "key"),
    [
        ("s3://b", "b", ""),
        ("s3://b/", "b", ""),
        ("s3://b/a/b c%20", "b", "a/b c%20"),
        ("s3://b//x", "b", "/x"),
    ],
)
def test_s3_url__well_formed__is_split_and_not_decoded(text: str, bucket: str, key: str) -> None:
    assert options.s3_url(text) == options.S3Url(bucket, key)


@pytest.mark.parametrize("text", ["b/k", "s3:b", "s3://", "s3:///k", "http://b/k"])
def test_s3_url__malformed__is_a_usage_error(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="s3://BUCKET/KEY"):
        options.s3_url(text)


@pytest.mark.parametrize("version", ["-K525XLOvraxVXKulAGi1URcJlxSTaw9", "--http", "-", "null"])
@pytest.mark.parametrize("command", ["get", "cp"])
def test_version_id__whatever_it_begins_with__is_the_options_value(
    version: str, command: str
) -> None:
    words = [command, "--version-id", version, "s3://b/k", "s3://b/l"]
    parsed = make_parser().parse_args(options.joined(words))
    assert parsed.version_id == version


def test_version_id__as_a_name_of_a_file__is_one() -> None:
    words = ["put", "--", "--version-id", "s3://b/k"]
    assert options.joined(words) == words


def test_version_id__without_a_value__is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["rm", "s3://b/k", "--version-id"])
    assert ended.value.code == 2
    assert "--version-id: expected one argument" in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["put", "file"],
        ["put", "file", "b/k"],
        ["get", "--http", "--rdma", "s3://b/k", "file"],
        ["mb", "s3://b/k"],
        ["get", "--part-size", "1MiB", "s3://b/k", "file"],
        ["get", "--part-size", "2GiB", "s3://b/k", "file"],
        ["get", "--part-size", "large", "s3://b/k", "file"],
        ["get", "--jobs", "0", "s3://b/k", "file"],
        ["put", "--recurs", "dir", "s3://b/k"],
        ["rm", "--version-id", "1", "--all-versions", "s3://b/k"],
        ["bench", "bucket"],
        ["bench", "http://host"],
        ["bench", "s3://b/k"],
        ["bench", "s3://b", "--ways", "carrier-pigeon"],
        ["bench", "s3://b", "--seconds", "soon"],
        ["bench", "s3://b", "--plot", "picture.gif"],
        ["completion", "csh"],
        ["keys"],
        ["nonsense"],
    ],
)
def test_main__wrong_usage__exits_with_2(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 2
    assert "usage:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["get", "s3://b", "file"], "names no key"),
        (["get", "s3://b/dir/", "."], "no file name"),
        (["get", "s3://b/dir/..", "."], "no file name"),
        (["get", "s3://b/1", "s3://b/2", "-"], "one object"),
        (["get", "-r", "s3://b/1", "-"], "one object"),
        (["get", "s3://b", "-"], "names no key"),
        (["get", "-r", "s3://b", __file__], "not a directory"),
        (["get", "--version-id", "1", "-r", "s3://b", "."], "of one object"),
        (["rm", "s3://b"], "names no key"),
        (["rm", "--version-id", "1", "s3://b/1", "s3://b/2"], "of one object"),
        (["put", "1", "2", "s3://b/k"], "must end with /"),
        (["put", "-", "2", "s3://b/k/"], "one object"),
        (["put", "-", "s3://b/k/"], "names no key"),
        (["cp", "s3://b/1", "s3://b/2", "s3://b/k"], "must end with /"),
        (["cp", "--version-id", "1", "-r", "s3://b/1", "s3://b/2"], "of one object"),
    ],
)
def test_command__that_names_too_little_or_too_much__exits_with_2(
    argv: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    assert text in capsys.readouterr().err


def _connection(*argv: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    options.add_connection_options(parser)
    options.add_transfer_options(parser)
    return parser.parse_args(argv)


def test_endpoint__flag_environment_default__in_that_order(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _connection().endpoint_url == "http://127.0.0.1:9000"
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://aws:1")
    assert _connection().endpoint_url == "http://aws:1"
    monkeypatch.setenv("S3RDMA_ENDPOINT_URL", "http://own:2")
    assert _connection().endpoint_url == "http://own:2"
    assert _connection("--endpoint-url", "http://flag:3").endpoint_url == "http://flag:3"


@pytest.mark.parametrize(
    ("argv", "mode"),
    [((), RdmaMode.AUTO), (("--http",), RdmaMode.NEVER), (("--rdma",), RdmaMode.REQUIRE)],
)
def test_mode__of_each_flag__reaches_the_client(argv: tuple[str, ...], mode: RdmaMode) -> None:
    assert remote.make_client(_connection(*argv))._mode is mode


@pytest.mark.parametrize(
    ("argv", "verify"),
    [((), None), (("--ca-bundle", "ca.pem"), "ca.pem"), (("--no-verify-ssl",), False)],
)
def test_trust__of_each_flag__reaches_the_client(argv: tuple[str, ...], verify: object) -> None:
    assert remote.make_client(_connection(*argv))._verify is verify


def test_secrets__on_the_command_line__do_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["put", "--help"])
    shown = capsys.readouterr().out
    assert "--secret" not in shown
    assert "S3RDMA_SECRET_KEY" in shown


def test_attempt__malformed_endpoint__is_said() -> None:
    async def work(_client: object) -> None:
        raise AssertionError

    args = _connection("--endpoint-url", "nonsense")
    assert "http://HOST:PORT" in str(remote.attempt(args, work))


@pytest.mark.parametrize(
    ("done", "line"),
    [
        (
            Transfer(
                67108864,
                0.52,
                "e",
                TransferPath.RDMA,
                device="rxe0",
                carrier="verbs",
                protocol=RdmaProtocol.RC,
            ),
            "put 67108864 bytes in 0.52 s (0.13 GB/s) by RDMA (rxe0, verbs, rc)",
        ),
        (
            Transfer(10, 1.0, "e", TransferPath.HTTP, "the server answered 501 unsupported: off\n"),
            "put 10 bytes in 1.00 s (0.00 GB/s) by HTTP: "
            "the server answered 501 unsupported: off\\n",
        ),
    ],
)
def test_result_line__of_each_way__says_bytes_seconds_and_path(done: Transfer, line: str) -> None:
    assert report.result_line("put", done) == line


def test_printable__control_characters__cannot_steer_a_terminal() -> None:
    assert remote.printable("a\x1b[2J\né") == "a\\x1b[2J\\né"
