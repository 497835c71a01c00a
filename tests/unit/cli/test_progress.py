from __future__ import annotations

import io
import sys

import pytest

from gateway.cli.progress import shown


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_shown__on_a_terminal__draws_the_name_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with shown("put [red]x", wanted=True) as report:
        report(0, 2_000_000)
        report(1_000_000, 2_000_000)
    assert "put [red]x" in terminal.getvalue()
    assert "1.0/2.0 MB" in terminal.getvalue()


@pytest.mark.parametrize(("stream", "wanted"), [(Terminal, False), (io.StringIO, True)])
def test_shown__unwanted_or_unseen__draws_nothing(
    stream: type[io.StringIO], wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", output := stream())
    with shown("put x", wanted=wanted) as report:
        report(1, 2)
    assert output.getvalue() == ""
