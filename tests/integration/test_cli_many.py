"""Many objects at once: prefixes, directories, odd keys, and what an earlier run has done."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine
from gateway_process import GatewayProcess
from odd_keys import ODD_KEYS

COUNT = 120


@pytest.fixture
def cli(served: GatewayProcess) -> CommandLine:
    return CommandLine(served)


def contents(directory: Path) -> dict[str, bytes]:
    """Every file below a directory; a hidden one would be something left behind."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def fill(directory: Path, count: int = COUNT) -> dict[str, bytes]:
    for number in range(count):
        path = directory / f"d{number % 7}" / f"{number:03}.{'txt' if number % 2 else 'bin'}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(number * 13))
    return contents(directory)


def keys(s3: Any, bucket: str) -> list[str]:
    return [one["Key"] for one in s3.list_objects_v2(Bucket=bucket).get("Contents", ())]


def test_directory__there_and_back__is_the_same(
    cli: CommandLine, s3: Any, bucket: str, tmp_path: Path
) -> None:
    files = fill(tmp_path / "in")
    put = cli("put", "-r", "-j", "16", tmp_path / "in", f"s3://{bucket}/p")
    assert put.returncode == 0
    assert put.stdout.startswith(f"put {COUNT} objects, ")
    assert keys(s3, bucket) == sorted(f"p/{name}" for name in files)
    s3.put_object(Bucket=bucket, Key="p-not-below", Body=b"")
    got = cli("get", "-r", "--json", f"s3://{bucket}/p", tmp_path / "out")
    assert contents(tmp_path / "out") == files
    *rows, last = (json.loads(line) for line in got.stdout.splitlines())
    assert {row["key"].removeprefix("p/") for row in rows} == set(files)
    assert last["summary"]["done"] == COUNT
    assert last["summary"]["bytes"] == sum(map(len, files.values()))


def test_update__again__moves_only_what_is_another(
    cli: CommandLine, s3: Any, bucket: str, tmp_path: Path
) -> None:
    fill(tmp_path / "in", 10)
    source, url = tmp_path / "in", f"s3://{bucket}/"
    assert cli("put", "-r", source, url).returncode == 0
    assert "put 0 objects, 0 bytes" in cli("put", "-ru", source, url).stdout
    (source / "d1/001.txt").write_bytes(b"longer than before")
    assert "put 1 object, 18 bytes" in cli("put", "-ru", source, url).stdout
    out = tmp_path / "out"
    assert "get 10 objects" in cli("get", "-ru", url, out).stdout
    assert cli("get", "-ru", url, out).stdout.endswith(" s, 10 skipped\n")
    os.utime(out / "d2/002.bin", (1, 1))
    (out / "d3/003.txt").write_bytes(b"another size")
    assert "get 2 objects" in cli("get", "-ru", url, out).stdout
    assert contents(out) == contents(source)
    assert "skipped" in cli("get", "-u", f"{url}d1/001.txt", out / "d1/001.txt").stdout


def test_no_clobber__what_is_there__stays(
    cli: CommandLine, s3: Any, bucket: str, tmp_path: Path
) -> None:
    (tmp_path / "k").write_bytes(b"mine")
    s3.put_object(Bucket=bucket, Key="k", Body=b"theirs")
    url = f"s3://{bucket}/k"
    assert "it is there already" in cli("put", "--no-clobber", tmp_path / "k", url).stdout
    assert "it is there already" in cli("get", "--no-clobber", url, tmp_path / "k").stdout
    s3.put_object(Bucket=bucket, Key="k2", Body=b"2")
    assert "it is there already" in cli("cp", "--no-clobber", f"{url}2", url).stdout
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"theirs"
    assert (tmp_path / "k").read_bytes() == b"mine"


def test_globs__include_and_exclude__choose(
    cli: CommandLine, s3: Any, bucket: str, tmp_path: Path
) -> None:
    files = fill(tmp_path / "in", 20)
    globs = ("--include", "*.txt", "--exclude", "d1/*")
    chosen = {name for name in files if name.endswith(".txt") and not name.startswith("d1/")}
    planned = cli("put", "-rn", *globs, tmp_path / "in", f"s3://{bucket}")
    assert planned.stdout.count("would put ") == len(chosen)
    assert keys(s3, bucket) == []
    assert cli("put", "-r", *globs, tmp_path / "in", f"s3://{bucket}").returncode == 0
    assert set(keys(s3, bucket)) == chosen
    assert cli("rm", "-r", "--exclude", "d3/*", f"s3://{bucket}").returncode == 0
    assert keys(s3, bucket) == sorted(name for name in chosen if name.startswith("d3/"))


def test_get__odd_keys__land_below_the_directory_or_fail_by_name(
    cli: CommandLine, s3: Any, bucket: str, tmp_path: Path
) -> None:
    root = tmp_path / "deep" / "target"
    odd = [*ODD_KEYS.values(), "../../escape", "x/../../../escape", "a", "a/b", "a!", "e/", "e/f"]
    for key in odd:
        s3.put_object(Bucket=bucket, Key=key, Body=b"" if key.endswith("/") else key.encode())
    got = cli("get", "-r", f"s3://{bucket}", root)
    assert got.returncode == 1
    files = contents(tmp_path)
    assert all(name.startswith("deep/target/") for name in files)
    arrived = {name.removeprefix("deep/target/"): data for name, data in files.items()}
    assert all(data == name.encode() for name, data in arrived.items())
    failed = {key for key in odd if f"s3rdma: s3://{bucket}/{key}: " in got.stderr}
    assert failed | set(arrived) | {"dir/", "e/"} == set(odd)
    assert failed == {
        *("a//b.txt", "/lead.txt", "a/./b.txt", "a/../b.txt", "a/b"),
        *("../../escape", "x/../../../escape"),
    }
    assert (root / "dir").is_dir()
    assert cli("get", f"s3://{bucket}/../../escape", root / "by-itself").returncode == 0
    assert (root / "by-itself").read_bytes() == b"../../escape"


def test_get__a_link_leads_out_of_the_directory__is_not_followed(
    cli: CommandLine, s3: Any, bucket: str, tmp_path: Path
) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    for directory in (root, elsewhere):
        directory.mkdir()
    (root / "out").symlink_to(elsewhere)
    (root / "file").symlink_to(elsewhere / "file")
    for key in ("out/x", "file", "good"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"data")
    got = cli("get", "-r", f"s3://{bucket}", root)
    assert got.returncode == 1
    assert got.stderr.count("symbolic link") == 2
    assert list(elsewhere.iterdir()) == []
    assert (root / "good").read_bytes() == b"data"


def test_get_put__several_sources__go_to_one_place(
    cli: CommandLine, s3: Any, bucket: str, tmp_path: Path
) -> None:
    for name in ("1", "2"):
        (tmp_path / name).write_text(name)
    put = cli("put", "-v", tmp_path / "1", tmp_path / "2", tmp_path / "3", f"s3://{bucket}/d/")
    assert put.returncode == 1
    assert f"{tmp_path / '3'}: No such file" in put.stderr
    assert put.stdout.endswith(", 1 failed\n")
    assert keys(s3, bucket) == ["d/1", "d/2"]
    got = cli(
        "get", f"s3://{bucket}/d/1", f"s3://{bucket}/d/2", f"s3://{bucket}/d/9", tmp_path / "o"
    )
    assert got.returncode == 1
    assert f"s3://{bucket}/d/9: NotFound" in got.stderr
    assert contents(tmp_path / "o") == {"1": b"1", "2": b"2"}


def test_put__what_is_no_file__fails_by_name_and_links_to_files_are_followed(
    cli: CommandLine, s3: Any, bucket: str, tmp_path: Path
) -> None:
    root = tmp_path / "in"
    (root / "d").mkdir(parents=True)
    (root / "file").write_bytes(b"data")
    (root / "link").symlink_to("file")
    (root / "loop").symlink_to(root)
    (root / "dangling").symlink_to("nothing")
    os.mkfifo(root / "pipe")
    put = cli("put", "-r", root, f"s3://{bucket}")
    assert put.returncode == 1
    assert put.stderr.count("s3rdma: ") == 2
    assert "pipe is not a regular file" in put.stderr
    assert keys(s3, bucket) == ["file", "link"]
    assert "add --recursive" in cli("put", root, f"s3://{bucket}/x").stderr


def test_cp__within_the_server__copies_keys_and_prefixes(
    cli: CommandLine, s3: Any, bucket: str
) -> None:
    for key in ("p/1", "p/d/2", "p", "q"):
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode(), ContentType="text/x")
    assert cli("cp", f"s3://{bucket}/q", f"s3://{bucket}/r").stdout == (
        f"cp s3://{bucket}/q to s3://{bucket}/r\n"
    )
    assert cli("cp", "-r", f"s3://{bucket}/p", f"s3://{bucket}/t").returncode == 0
    assert [key for key in keys(s3, bucket) if key.startswith("t/")] == ["t/1", "t/d/2", "t/p"]
    copied = s3.get_object(Bucket=bucket, Key="t/d/2")
    assert (copied["Body"].read(), copied["ContentType"]) == (b"p/d/2", "text/x")
    missing = cli("cp", f"s3://{bucket}/none", f"s3://{bucket}/x")
    assert missing.returncode == 1
    assert f"s3://{bucket}/none: " in missing.stderr
    assert "is a prefix" in cli("cp", f"s3://{bucket}/p/", f"s3://{bucket}/x").stderr


def test_rm__of_versions__removes_what_is_asked_for(
    cli: CommandLine, s3: Any, bucket: str, tmp_path: Path
) -> None:
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    first = s3.put_object(Bucket=bucket, Key="k", Body=b"1")["VersionId"]
    for body in (b"2", b"3"):
        s3.put_object(Bucket=bucket, Key="k", Body=body)
    s3.put_object(Bucket=bucket, Key="k2", Body=b"")
    url = f"s3://{bucket}/k"
    assert cli("get", "--version-id", first, url, tmp_path / "out").returncode == 0
    assert (tmp_path / "out").read_bytes() == b"1"
    assert cli("cp", "--version-id", first, url, f"s3://{bucket}/old").returncode == 0
    assert s3.get_object(Bucket=bucket, Key="old")["Body"].read() == b"1"
    assert cli("rm", url).stdout == f"rm {url}\n"
    assert keys(s3, bucket) == ["k2", "old"]
    rows = [json.loads(line) for line in cli("ls", "--versions", "--json", url).stdout.splitlines()]
    own = [row for row in rows if row["key"] == "k"]
    assert [row["delete_marker"] for row in own] == [True, False, False, False]
    assert "(delete marker)" in cli("ls", "--versions", url).stdout
    assert cli("rm", "--version-id", first, url).returncode == 0
    assert cli("rm", "--all-versions", url).stdout.startswith("rm 3 objects, ")
    left = s3.list_object_versions(Bucket=bucket)
    assert [one["Key"] for one in left["Versions"]] == ["k2", "old"]
    assert "no version of that name" in cli("rm", "--all-versions", url).stderr


def test_recursive__nothing_is_there__fails(cli: CommandLine, bucket: str, tmp_path: Path) -> None:
    for words in (
        ("get", "-r", f"s3://{bucket}/none", tmp_path / "o"),
        ("rm", "-r", f"s3://{bucket}/n"),
    ):
        done = cli(*words)
        assert done.returncode == 1
        assert "none below it" in done.stderr


def test_bucket__that_is_not_there__is_said_once_and_not_for_each(
    cli: CommandLine, tmp_path: Path
) -> None:
    fill(tmp_path / "in", 50)
    put = cli("put", "-r", "-j", "2", tmp_path / "in", "s3://no-such-bucket-anywhere")
    assert put.returncode == 1
    assert put.stderr.count("NoSuchBucket") <= 2
    assert "given up" in put.stderr
