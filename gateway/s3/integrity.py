"""What a client says its bytes hash to, held against what they did hash to, on every path.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity.html
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.errors import ClientError, S3Code
from gateway.wire.checksums import Algorithm, declared_checksums, parse_content_md5
from gateway.wire.request import RequestHead, parse_query


@dataclass(frozen=True, slots=True)
class Declared:
    """The digests that travel with a request.

    Attributes:
        md5: 16 bytes, or None where there was no Content-MD5.
        checksums: base64 by algorithm; from the headers, or from trailers once they are in.
    """

    md5: bytes | None = None
    checksums: Mapping[Algorithm, str] = field(default_factory=dict)

    @classmethod
    def of(cls, head: RequestHead) -> Declared:
        """What the headers declare of the body. Raises ClientError: InvalidDigest, InvalidRequest.

        The checksum headers of CompleteMultipartUpload speak of the finished object, not of the
        document in the body; `s3.complete_upload` holds them against the parts.
        """
        completes = head.method == "POST" and any(
            name == "uploadId" for name, _ in parse_query(head.raw_query)
        )
        return cls(parse_content_md5(head), {} if completes else declared_checksums(head))

    def verify(self, md5: bytes, computed: Mapping[Algorithm, str]) -> None:
        """Compare with what was computed over the bytes that came.

        Args:
            md5: 16 bytes; looked at only where one was declared.
            computed: base64; holds every algorithm that was declared.

        Raises:
            ClientError: BadDigest, with both values.
        """
        if self.md5 is not None and self.md5 != md5:
            raise _bad("Content-MD5", self.md5.hex(), md5.hex())
        for algorithm, expected in self.checksums.items():
            if computed[algorithm] != expected:
                raise _bad(algorithm.label, expected, computed[algorithm])


def _bad(name: str, expected: str, calculated: str) -> ClientError:
    return ClientError(
        S3Code.BAD_DIGEST,
        f"The {name} you specified did not match the calculated checksum.",
        details={"ExpectedDigest": expected, "CalculatedDigest": calculated},
    )
