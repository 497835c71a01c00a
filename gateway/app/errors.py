"""What keeps the gateway from starting."""

from __future__ import annotations


class StartError(Exception):
    """The gateway can't start; the text is one line for the operator."""
