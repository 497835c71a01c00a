from __future__ import annotations

import re
from fnmatch import fnmatchcase
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.auth.wildcard import PolicyVariableError, compile_pattern, is_literal


@given(st.text("ab*?", max_size=8), st.text("ab/\n", max_size=10))
def test_compile_pattern__any__matches_what_fnmatch_does(pattern: str, text: str) -> None:
    assert bool(compile_pattern(pattern).fullmatch(text)) is fnmatchcase(text, pattern)


def test_compile_pattern__expression_characters__mean_themselves() -> None:
    assert compile_pattern("a.b[c](d)+$").fullmatch("a.b[c](d)+$")
    assert not compile_pattern("a.b").fullmatch("axb")


def test_compile_pattern__all_stars__does_not_explode() -> None:
    began_s = perf_counter()
    assert not compile_pattern("*a" * 500 + "b").fullmatch("a" * 1024)
    assert perf_counter() - began_s < 1


@pytest.mark.parametrize("pattern", ["${aws:username}", "a${", "${s3:prefix}/*"])
def test_compile_pattern__variable__is_refused(pattern: str) -> None:
    with pytest.raises(PolicyVariableError, match=re.escape("${")):
        compile_pattern(pattern)


def test_compile_pattern__escapes__mean_the_characters() -> None:
    assert compile_pattern("${*}${?}${$}").fullmatch("*?$")


def test_is_literal__wildcards__are_not() -> None:
    assert is_literal("abc")
    assert not is_literal("a*")
    assert not is_literal("a?")
