"""No key leads out of a directory, whatever it is made of."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odd_keys import ODD_KEYS

from gateway.cli.objects.globs import Globs
from gateway.cli.objects.names import (
    Nesting,
    UnsafeNameError,
    as_directory,
    below,
    joined,
    last_name,
)
from gateway.cli.options import S3Url

UNSAFE = {"double_slash", "leading_slash", "dot", "dot_dot", "trailing_slash"}


@pytest.mark.parametrize("kind", sorted(set(ODD_KEYS) - UNSAFE))
def test_below__odd_name_that_a_file_can_have__is_that_file(kind: str, tmp_path: Path) -> None:
    assert below(tmp_path, ODD_KEYS[kind]) == tmp_path / ODD_KEYS[kind]


@pytest.mark.parametrize(
    "name",
    [*(ODD_KEYS[kind] for kind in sorted(UNSAFE)), "", "..", "../x", "a/../../x", "/etc/x", "a\0b"],
)
def test_below__no_file_can_be_called_so__is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnsafeNameError):
        below(tmp_path, name)


@given(st.text(st.sampled_from("./a\0\\~"), max_size=12))
def test_below__of_anything__is_inside_or_refused(name: str) -> None:
    root = Path("/srv/target")
    try:
        path = below(root, name)
    except UnsafeNameError:
        return
    assert path.is_relative_to(root)
    assert ".." not in path.parts
    assert path != root


def test_below__behind_a_link_to_elsewhere__is_refused(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    for directory in (root / "inside", elsewhere):
        directory.mkdir(parents=True)
    (root / "out").symlink_to(elsewhere)
    (root / "file").symlink_to(elsewhere / "file")
    (root / "in").symlink_to("inside")
    for name in ("out/x", "file"):
        with pytest.raises(UnsafeNameError, match="symbolic link"):
            below(root, name)
    assert below(root, "in/x") == root / "in/x"


def test_below__the_root_is_a_link_itself__is_its_target(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "root").symlink_to("real")
    assert below(tmp_path / "root", "a/b") == tmp_path / "root/a/b"


def test_nesting__keys_in_byte_order__names_the_file_in_the_way() -> None:
    nesting = Nesting()
    keys = ["a", "a!", "a-b", "a/b", "a/b/c", "ab", "b/c", "b/c/d", "b0"]
    assert keys == sorted(keys)
    assert [nesting.file_above(key) for key in keys] == [
        *(None, None, None, "a", "a"),
        *(None, None, "b/c", None),
    ]


@pytest.mark.parametrize(("prefix", "directory"), [("", ""), ("a", "a/"), ("a/", "a/")])
def test_as_directory__of_a_prefix__ends_with_a_slash(prefix: str, directory: str) -> None:
    assert as_directory(prefix) == directory
    assert joined(S3Url("b", prefix), "x").key == f"{directory}x"
    assert last_name(f"{directory}x") == "x"


@pytest.mark.parametrize(
    ("include", "exclude", "taken"),
    [
        ([], [], ["a.txt", "d/b.txt", "d/c.bin"]),
        (["*.txt"], [], ["a.txt", "d/b.txt"]),
        (["*.txt", "*.bin"], ["d/*"], ["a.txt"]),
        ([], ["?.txt"], ["d/b.txt", "d/c.bin"]),
        (["[ab].txt"], [], ["a.txt"]),
        (["A.TXT"], [], []),
    ],
)
def test_globs__each_choice__takes_those_names(
    include: list[str], exclude: list[str], taken: list[str]
) -> None:
    globs = Globs.of(include, exclude)
    assert [name for name in ("a.txt", "d/b.txt", "d/c.bin") if globs.take(name)] == taken
