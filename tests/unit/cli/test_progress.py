"""Bars where somebody looks, and nothing where nobody does."""

from __future__ import annotations

import io
import sys

import pytest

from gateway.cli.objects.tasks import Item
from gateway.cli.options import S3Url
from gateway.cli.progress import board

ITEM = Item("put", S3Url("b", "[red]x"), "x", 2_000_000)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_board__on_a_terminal__draws_the_whole_and_each_name_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with board("put", wanted=True) as bars:
        bars.found(ITEM)
        bars.found(ITEM)
        with bars.shown(ITEM) as report:
            report(0, 2_000_000)
            report(1_000_000, 2_000_000)
            bars._bars.refresh()  # type: ignore[attr-defined] # it would, ten times in a second
    drawn = terminal.getvalue()
    assert "s3://b/[red]x" in drawn
    assert "1.0/2.0 MB" in drawn
    assert "put 1/2" in drawn
    assert "1.0/4.0 MB" in drawn


def test_board__object_is_longer_than_told__the_whole_grows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    unknown = Item("get", S3Url("b", "k"), "-")
    with board("get", wanted=True) as bars:
        bars.found(unknown)
        with bars.shown(unknown) as report:
            report(3_000_000, 9_000_000)
    assert "3.0/9.0 MB" in terminal.getvalue()


@pytest.mark.parametrize(("stream", "wanted"), [(Terminal, False), (io.StringIO, True)])
def test_board__unwanted_or_unseen__draws_nothing(
    stream: type[io.StringIO], wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", output := stream())
    with board("put", wanted=wanted) as bars:
        bars.found(ITEM)
        with bars.shown(ITEM) as report:
            report(1, 2)
    assert output.getvalue() == ""
