"""The body of a POST form: its fields first, then its file as the body of a PutObject."""

from __future__ import annotations

from functools import partial

from gateway.auth.post_policy import SizeRange
from gateway.config import HttpLimits
from gateway.errors import ClientError, S3Code
from gateway.s3.body import Poured, too_large
from gateway.storage.port import Staged
from gateway.web.body import Digesting, HttpBody, Source
from gateway.wire.checksums import Algorithm
from gateway.wire.form_data import FileDecoder, FormFields, FormHead, form_boundary
from gateway.wire.request import RequestHead


class FormBody(HttpBody):
    """One form; keeps ``s3.body.Form``.

    Args:
        source: where the bytes come from.
        head: names the boundary.
        limits: max_form_bytes bounds the fields, max_object_bytes the file.
        digesting: shared by all requests.
    """

    def __init__(
        self, source: Source, head: RequestHead, limits: HttpLimits, digesting: Digesting
    ) -> None:
        super().__init__(source, head, limits, digesting, sha256_hex=None, verifier=None)
        self._boundary = b""
        self._size = SizeRange()

    @property
    def length_bytes(self) -> int | None:
        """Of the file nobody says it."""
        return None

    async def read_fields(self) -> FormFields:
        """Everything before the file. Raises ClientError, as FormHead and Source do."""
        self._boundary = form_boundary(self._head)
        form = FormHead(self._boundary, self._limits.max_form_bytes)
        while not form.complete:
            data = await self._source.first()
            if not data:
                form.finish()
            self._ahead = form.feed(data)
        return form.fields

    def hold_to(self, head: RequestHead, size: SizeRange) -> None:
        """Say what the fields said of the file: digests, as headers, and how long it may be."""
        self._head, self._size = head, size

    async def pour(self, staged: Staged, also: frozenset[Algorithm] = frozenset()) -> Poured:
        limit_bytes = min(self._size.most_bytes, self._limits.max_object_bytes)
        over_limit = partial(too_large, None, limit_bytes)
        poured = await self._move(staged.write, limit_bytes, over_limit, also)
        if poured.size_bytes < self._size.least_bytes:
            raise ClientError(
                S3Code.ENTITY_TOO_SMALL,
                details={
                    "ProposedSize": str(poured.size_bytes),
                    "MinSizeAllowed": str(self._size.least_bytes),
                },
            )
        return poured

    def _decoder(self, announced: tuple[Algorithm, ...]) -> FileDecoder:
        return FileDecoder(self._boundary)
