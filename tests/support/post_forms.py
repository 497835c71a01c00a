"""POST forms for tests: signed by botocore, and read in pieces of any length."""

from __future__ import annotations

from functools import cache
from typing import Any

import botocore.session
from botocore.config import Config
from request_heads import ACCESS_KEY, REGION, SECRET_KEY

from gateway.wire.form_data import FileDecoder, FormFields, FormHead


def botocore_form(
    version: str, key: str, fields: dict[str, str] | None, conditions: list[Any] | None
) -> dict[str, str]:
    """The fields of a form for the bucket "shop", good for an hour.

    Args:
        version: "s3v4", or "s3" for version 2 of the signature.
        key: the object's; may hold ``${filename}``.
        fields: more fields, each of which needs a condition.
        conditions: of the policy, besides those on bucket and key.
    """
    made = _signer(version).generate_presigned_post("shop", key, fields, conditions)
    return dict(made["fields"])


@cache
def _signer(version: str) -> Any:
    return botocore.session.get_session().create_client(
        "s3",
        REGION,
        endpoint_url="http://gateway:9000",
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        config=Config(signature_version=version),
    )


def read_form(
    data: bytes, boundary: bytes, cut_bytes: int = 1 << 20, limit_bytes: int = 20 * 1024
) -> tuple[FormFields, bytes]:
    """The fields and the file of a form that comes in pieces of `cut_bytes`."""
    form, decoder = FormHead(boundary, limit_bytes), FileDecoder(boundary)
    file = bytearray()
    for start in range(0, len(data), cut_bytes):
        piece = data[start : start + cut_bytes]
        if not form.complete:
            piece = form.feed(piece)
        if form.complete:
            file += b"".join(decoder.feed(piece))
    form.finish()
    decoder.finish()
    return form.fields, bytes(file)
