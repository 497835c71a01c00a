"""What ids look like: people give them to commands, and some commands take a dash for an option."""

from __future__ import annotations

import re

from gateway.storage.port import Versioning
from gateway.storage.rules import version_id_for


def test_version_id__many__are_hex_digits_and_all_different() -> None:
    ids = {version_id_for(Versioning.ENABLED) for _ in range(1000)}
    assert len(ids) == 1000
    assert all(re.fullmatch("[0-9a-f]{32}", one) for one in ids)


def test_version_id__without_versioning__is_null() -> None:
    assert version_id_for(Versioning.OFF) == "null"
    assert version_id_for(Versioning.SUSPENDED) == "null"
