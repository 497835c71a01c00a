"""The query of an S3 request: the sub-resource that picks the operation, and the parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.errors import ClientError, S3Code
from gateway.wire.request import decode_query

MAX_PART_NUMBER = 10_000

# Names that turn a request on a bucket or an object into another operation, served or not.
# https://docs.aws.amazon.com/AmazonS3/latest/API/API_Operations_Amazon_Simple_Storage_Service.html
_SUBRESOURCES = frozenset(
    {
        "abac",
        "accelerate",
        "acl",
        "analytics",
        "append",
        "attributes",
        "cors",
        "delete",
        "encryption",
        "intelligent-tiering",
        "inventory",
        "legal-hold",
        "lifecycle",
        "location",
        "logging",
        "metadataConfiguration",
        "metadataInventoryTable",
        "metadataJournalTable",
        "metadataTable",
        "metrics",
        "notification",
        "object-lock",
        "ownershipControls",
        "policy",
        "policyStatus",
        "publicAccessBlock",
        "renameObject",
        "replication",
        "requestPayment",
        "restore",
        "retention",
        "select",
        "session",
        "tagging",
        "torrent",
        "uploads",
        "versioning",
        "versions",
        "website",
    }
)

# Parameters that S3 defines and that may legitimately be empty.
_PARAMETERS = frozenset(
    {
        "awsaccesskeyid",
        "bucket-region",
        "continuation-token",
        "delimiter",
        "encoding-type",
        "expires",
        "fetch-owner",
        "key-marker",
        "list-type",
        "marker",
        "max-buckets",
        "max-keys",
        "max-parts",
        "max-uploads",
        "part-number-marker",
        "partnumber",
        "prefix",
        "signature",
        "start-after",
        "upload-id-marker",
        "uploadid",
        "version-id-marker",
        "versionid",
    }
)
_LARGEST = 2**63 - 1
_PARAMETER_FAMILIES = ("response-", "x-amz-", "x-id")


@dataclass(frozen=True, slots=True)
class Query:
    """Decoded parameters; of a repeated name the first value counts."""

    parameters: Mapping[str, str]

    @classmethod
    def parse(cls, raw_query: str) -> Query:
        """Decode ``a=b&c``. Raises InvalidURI where that has no meaning."""
        parameters: dict[str, str] = {}
        for name, value in decode_query(raw_query):
            parameters.setdefault(name, value)
        return cls(parameters)

    def get(self, name: str) -> str | None:
        """The value; "" where the name stands alone, None where it is absent."""
        return self.parameters.get(name)

    def text(self, name: str) -> str:
        """The value, or "" where it is absent."""
        return self.parameters.get(name, "")

    def integer(self, name: str, *, default: int, least: int = 0, most: int) -> int:
        """A decimal parameter, clamped to `most`. InvalidArgument below `least` or not a number."""
        return bounded_integer(name, self.get(name), default=default, least=least, most=most)

    def part_number(self) -> int | None:
        """partNumber, 1 to 10000, or None. InvalidArgument for anything else, nothing clamped."""
        value = self.get("partNumber")
        if value is None:
            return None
        number = _number(value)
        if number is None or not 1 <= number <= MAX_PART_NUMBER:
            raise invalid_argument(
                "partNumber",
                value,
                f"Part number must be an integer between 1 and {MAX_PART_NUMBER}, inclusive",
            )
        return number

    def version_id(self) -> str | None:
        """versionId, or None."""
        value = self.get("versionId")
        if value == "":
            raise invalid_argument("versionId", value, "Version id cannot be the empty string")
        return value

    def encode(self) -> bool:
        """Whether encoding-type=url was asked for."""
        value = self.text("encoding-type")
        if value not in ("", "url"):
            raise invalid_argument(
                "encoding-type", value, "Invalid Encoding Method specified in Request"
            )
        return value == "url"

    def subresource(self) -> str | None:
        """The one sub-resource named, or None.

        A lone name that S3 does not define is refused, not ignored: a PUT with a sub-resource
        that came after this gateway must never overwrite the object itself.
        """
        named = [name for name in self.parameters if name in _SUBRESOURCES]
        unknown = [
            name
            for name, value in self.parameters.items()
            if not value and name not in named and not _is_parameter(name.lower())
        ]
        if unknown:
            raise ClientError(
                S3Code.NOT_IMPLEMENTED, f"The sub-resource ?{unknown[0]} is not implemented."
            )
        if len(named) > 1:
            raise invalid_argument(
                "ResourceType", named[0], f"Conflicting query parameters: {', '.join(named)}."
            )
        return named[0] if named else None


def bounded_integer(
    name: str, value: str | None, *, default: int, least: int = 0, most: int
) -> int:
    """The decimal value of a parameter or header, clamped to `most`; `default` where it is empty.

    Raises InvalidArgument below `least` or not a number.
    """
    if not value:
        return default
    number = _number(value)
    if number is None or number < least:
        raise invalid_argument(name, value, f"{name} must be an integer of at least {least}.")
    return min(number, most)


def invalid_argument(name: str, value: str, message: str) -> ClientError:
    """InvalidArgument with the two elements S3 adds to it."""
    return ClientError(
        S3Code.INVALID_ARGUMENT,
        message,
        details={"ArgumentName": name, "ArgumentValue": value},
    )


def _number(text: str) -> int | None:
    """A decimal of ASCII digits; what has more than nineteen is as good as the largest."""
    if not (text.isascii() and text.isdigit()):
        return None
    return int(text) if len(text) < 20 else _LARGEST


def _is_parameter(name: str) -> bool:
    return name in _PARAMETERS or name.startswith(_PARAMETER_FAMILIES)
