"""Patterns of policies: ``*`` is any run of characters, ``?`` any one.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_resource.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

_VARIABLE = re.compile(r"\$\{[^}]*\}?")
_ESCAPES = {"${*}": "*", "${?}": "?", "${$}": "$"}


class PolicyVariableError(ValueError):
    """A pattern names a policy variable, which this gateway does not fill in."""


@lru_cache(maxsize=256)
def compile_pattern(text: str, *, ignore_case: bool = False) -> re.Pattern[str]:
    """A pattern for `fullmatch`, in time proportional to the text times the pattern at worst.

    Each piece between two stars is taken where it is first found and never looked for again
    (atomic groups): a pattern that is all stars can't make the match explode.

    Raises:
        PolicyVariableError: ``${aws:username}`` and its like. The escapes ``${*}``, ``${?}`` and
            ``${$}`` are fine.
    """
    first, *rest = _pieces(text)
    if rest:
        middle = "".join(f"(?>.*?{piece})" for piece in rest[:-1] if piece)
        first = f"{first}{middle}.*{rest[-1]}"
    return re.compile(first, re.DOTALL | (re.IGNORECASE if ignore_case else 0))


def is_literal(text: str) -> bool:
    """Whether a pattern matches itself alone."""
    return not any(character in text for character in "*?")


def _pieces(text: str) -> list[str]:
    """The expressions between the stars."""
    pieces = [""]
    for token in _tokens(text):
        match token:
            case "*":
                pieces.append("")
            case "?":
                pieces[-1] += "."
            case _:
                pieces[-1] += re.escape(_ESCAPES.get(token, token))
    return pieces


def _tokens(text: str) -> Iterator[str]:
    """Single characters, and whole ``${…}``."""
    position = 0
    for variable in _VARIABLE.finditer(text):
        yield from text[position : variable.start()]
        if variable[0] not in _ESCAPES:
            raise PolicyVariableError(variable[0])
        yield variable[0]
        position = variable.end()
    yield from text[position:]
