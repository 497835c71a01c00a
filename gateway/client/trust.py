"""Whom an https endpoint's certificate must come from, in boto3's words."""

from __future__ import annotations

import os
import ssl
from typing import TypeAlias

Verify: TypeAlias = "bool | str | None"
"""True: the system's authorities; a path: those of a PEM file; False: anybody. None: the file that
``AWS_CA_BUNDLE`` names, else as True."""

_VARIABLE = "AWS_CA_BUNDLE"


def trust(verify: Verify) -> ssl.SSLContext | bool:
    """What aiohttp is to check certificates with.

    Raises:
        ValueError: the file can't be read, or is no PEM file of certificates.
    """
    bundle = os.environ.get(_VARIABLE) or True if verify is None else verify
    if isinstance(bundle, bool):
        return bundle
    try:
        return ssl.create_default_context(cafile=bundle)
    except (OSError, ssl.SSLError) as error:
        raise ValueError(
            f"the CA bundle {bundle} can't be used ({error.strerror or error}): "
            "name a PEM file of certificates"
        ) from error
