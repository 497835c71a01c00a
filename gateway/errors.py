"""Every error that a request can end in: S3's code, its HTTP status, and what to tell the client.

The tree, by who has to act::

    GatewayError
    ├── ClientError      the request is at fault (4xx, 501): safe text, names the header or element
    ├── BusyError        a limit is reached (503 SlowDown): retry after ``retry_after_s``
    ├── TransportError   an RDMA transfer failed (500): the session is dead, the object unchanged
    └── InternalError    our bug or our disk (500): the text is opaque, the cause goes to the log

Raise the error where it is known; only ``web.render`` turns it into HTTP. ``raise … from`` always.
Codes and texts: https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType


class S3Code(Enum):
    """One row per error: (S3 code, HTTP status, default message)."""

    ACCESS_DENIED = ("AccessDenied", 403, "Access Denied")
    ACCESS_CONTROL_LIST_NOT_SUPPORTED = (
        "AccessControlListNotSupported",
        400,
        "The bucket does not allow ACLs",
    )
    ACCESS_FORBIDDEN = ("AccessForbidden", 403, "CORSResponse: This CORS request is not allowed.")
    AUTHORIZATION_HEADER_MALFORMED = (
        "AuthorizationHeaderMalformed",
        400,
        "The authorization header is malformed.",
    )
    AUTHORIZATION_QUERY_PARAMETERS_ERROR = (
        "AuthorizationQueryParametersError",
        400,
        "The query parameters of the presigned URL are not valid.",
    )
    BAD_DIGEST = (
        "BadDigest",
        400,
        "The Content-MD5 or checksum you specified did not match what we received.",
    )
    BAD_REQUEST = ("BadRequest", 400, "Bad Request")
    BUCKET_ALREADY_EXISTS = (
        "BucketAlreadyExists",
        409,
        "The requested bucket name is not available.",
    )
    BUCKET_ALREADY_OWNED_BY_YOU = (
        "BucketAlreadyOwnedByYou",
        409,
        "The bucket you tried to create already exists, and you own it.",
    )
    BUCKET_NOT_EMPTY = ("BucketNotEmpty", 409, "The bucket you tried to delete is not empty.")
    CONDITIONAL_REQUEST_CONFLICT = (
        "ConditionalRequestConflict",
        409,
        "A conflicting operation occurred during this request; retry it.",
    )
    DIRECTORY_OBJECT_CONTAINS_DATA = (
        "DirectoryObjectContainsData",
        400,
        "A key that ends in / is a directory here, which holds no bytes.",
    )
    ENTITY_TOO_LARGE = (
        "EntityTooLarge",
        400,
        "Your proposed upload exceeds the maximum allowed object size.",
    )
    ENTITY_TOO_SMALL = (
        "EntityTooSmall",
        400,
        "Your proposed upload is smaller than the minimum allowed object size.",
    )
    EXISTING_OBJECT_IS_DIRECTORY = (
        "ExistingObjectIsDirectory",
        409,
        "A directory is at this key: keys are paths here, and other objects may be below it.",
    )
    INCORRECT_NUMBER_OF_FILES = (
        "IncorrectNumberOfFilesInPostRequest",
        400,
        "POST requires exactly one file upload per request.",
    )
    INCOMPLETE_BODY = (
        "IncompleteBody",
        400,
        "You did not provide the number of bytes specified by the Content-Length header.",
    )
    INTERNAL_ERROR = ("InternalError", 500, "We encountered an internal error. Please try again.")
    INVALID_ACCESS_KEY_ID = (
        "InvalidAccessKeyId",
        403,
        "The access key ID you provided does not exist in our records.",
    )
    INVALID_ARGUMENT = ("InvalidArgument", 400, "Invalid Argument")
    INVALID_BUCKET_ACL_WITH_OBJECT_OWNERSHIP = (
        "InvalidBucketAclWithObjectOwnership",
        400,
        "Bucket cannot have ACLs set with ObjectOwnership's BucketOwnerEnforced setting",
    )
    INVALID_BUCKET_NAME = ("InvalidBucketName", 400, "The specified bucket is not valid.")
    INVALID_BUCKET_STATE = (
        "InvalidBucketState",
        409,
        "The request is not valid for the current state of the bucket.",
    )
    INVALID_DIGEST = ("InvalidDigest", 400, "The Content-MD5 you specified is not valid.")
    INVALID_LOCATION_CONSTRAINT = (
        "InvalidLocationConstraint",
        400,
        "The specified location constraint is not valid.",
    )
    INVALID_OBJECT_STATE = ("InvalidObjectState", 403, "The object's state forbids the operation.")
    INVALID_PART = (
        "InvalidPart",
        400,
        "One or more of the specified parts could not be found, or its ETag did not match.",
    )
    INVALID_PART_ORDER = (
        "InvalidPartOrder",
        400,
        "The list of parts was not in ascending order of part number.",
    )
    INVALID_PART_NUMBER = (
        "InvalidPartNumber",
        416,
        "The requested part number is not satisfiable.",
    )
    INVALID_POLICY_DOCUMENT = (
        "InvalidPolicyDocument",
        400,
        "The content of the form does not meet the conditions specified in the policy document.",
    )
    INVALID_RANGE = ("InvalidRange", 416, "The requested range is not satisfiable.")
    INVALID_REQUEST = ("InvalidRequest", 400, "Invalid Request")
    INVALID_RETENTION_PERIOD = (
        "InvalidRetentionPeriod",
        400,
        "The retention period must be 1 to 36500 days, or 1 to 100 years.",
    )
    INVALID_STORAGE_CLASS = (
        "InvalidStorageClass",
        400,
        "The storage class you specified is not valid.",
    )
    INVALID_TAG = ("InvalidTag", 400, "The tag provided was not a valid tag.")
    INVALID_URI = ("InvalidURI", 400, "Couldn't parse the specified URI.")
    INVALID_RDMA_TOKEN = ("InvalidRDMAToken", 400, "The RDMA token is malformed.")
    KEY_TOO_LONG = ("KeyTooLongError", 400, "Your key is too long: at most 1024 bytes of UTF-8.")
    MALFORMED_ACL = (
        "MalformedACLError",
        400,
        "The ACL you provided was not well-formed or did not validate against our schema.",
    )
    MALFORMED_POLICY = (
        "MalformedPolicy",
        400,
        "Policies must be valid JSON and the first byte must be '{'",
    )
    MALFORMED_POST_REQUEST = (
        "MalformedPOSTRequest",
        400,
        "The body of your POST request is not well-formed multipart/form-data.",
    )
    MALFORMED_TRAILER = (
        "MalformedTrailerError",
        400,
        "The request contained trailing data that was not well-formed.",
    )
    MALFORMED_XML = (
        "MalformedXML",
        400,
        "The XML you provided was not well-formed or did not validate against our schema.",
    )
    MAX_MESSAGE_LENGTH_EXCEEDED = ("MaxMessageLengthExceeded", 400, "Your request was too big.")
    MAX_POST_PRE_DATA_LENGTH_EXCEEDED = (
        "MaxPostPreDataLengthExceededError",
        400,
        "Your POST request fields preceding the upload file were too large.",
    )
    METADATA_TOO_LARGE = (
        "MetadataTooLarge",
        400,
        "Your metadata headers exceed the maximum allowed metadata size.",
    )
    METHOD_NOT_ALLOWED = (
        "MethodNotAllowed",
        405,
        "The specified method is not allowed against this resource.",
    )
    MISSING_CONTENT_LENGTH = (
        "MissingContentLength",
        411,
        "You must provide the Content-Length HTTP header.",
    )
    MISSING_SECURITY_HEADER = (
        "MissingSecurityHeader",
        400,
        "Your request is missing a required header.",
    )
    NOT_IMPLEMENTED = (
        "NotImplemented",
        501,
        "A header or operation you provided implies functionality that is not implemented.",
    )
    NO_SUCH_BUCKET = ("NoSuchBucket", 404, "The specified bucket does not exist.")
    NO_SUCH_BUCKET_POLICY = ("NoSuchBucketPolicy", 404, "The bucket policy does not exist.")
    NO_SUCH_CONFIGURATION = (
        "NoSuchConfiguration",
        404,
        "The specified configuration does not exist.",
    )
    NO_SUCH_CORS_CONFIGURATION = (
        "NoSuchCORSConfiguration",
        404,
        "The CORS configuration does not exist.",
    )
    NO_SUCH_KEY = ("NoSuchKey", 404, "The specified key does not exist.")
    NO_SUCH_LIFECYCLE_CONFIGURATION = (
        "NoSuchLifecycleConfiguration",
        404,
        "The lifecycle configuration does not exist.",
    )
    NO_SUCH_OBJECT_LOCK_CONFIGURATION = (
        "NoSuchObjectLockConfiguration",
        404,
        "The specified object does not have an ObjectLock configuration.",
    )
    NO_SUCH_TAG_SET = ("NoSuchTagSet", 404, "There is no tag set associated with the bucket.")
    NO_SUCH_UPLOAD = (
        "NoSuchUpload",
        404,
        "The specified multipart upload does not exist. The upload ID might be invalid, or the "
        "upload might have been aborted or completed.",
    )
    NO_SUCH_VERSION = ("NoSuchVersion", 404, "The specified version does not exist.")
    NO_SUCH_WEBSITE_CONFIGURATION = (
        "NoSuchWebsiteConfiguration",
        404,
        "The specified bucket does not have a website configuration.",
    )
    OBJECT_LOCK_CONFIGURATION_NOT_FOUND = (
        "ObjectLockConfigurationNotFoundError",
        404,
        "Object Lock configuration does not exist for this bucket.",
    )
    OWNERSHIP_CONTROLS_NOT_FOUND = (
        "OwnershipControlsNotFoundError",
        404,
        "The bucket ownership controls were not found.",
    )
    NO_SUCH_PUBLIC_ACCESS_BLOCK = (
        "NoSuchPublicAccessBlockConfiguration",
        404,
        "The public access block configuration was not found.",
    )
    ENCRYPTION_NOT_FOUND = (
        "ServerSideEncryptionConfigurationNotFoundError",
        404,
        "The server side encryption configuration was not found.",
    )
    REPLICATION_NOT_FOUND = (
        "ReplicationConfigurationNotFoundError",
        404,
        "The replication configuration was not found.",
    )
    NO_SUCH_RDMA_SESSION = (
        "NoSuchRDMASession",
        404,
        "The RDMA session does not exist, has expired, or belongs to another access key.",
    )
    OBJECT_PARENT_IS_FILE = (
        "ObjectParentIsFile",
        409,
        "A directory of this key is an object: keys are paths here, and a file has nothing below.",
    )
    PRECONDITION_FAILED = (
        "PreconditionFailed",
        412,
        "At least one of the preconditions you specified did not hold.",
    )
    NOT_MODIFIED = ("NotModified", 304, "Not Modified")
    RDMA_NOT_SUPPORTED = (
        "RDMANotSupported",
        501,
        "This server does not move this request's data by RDMA; send it over plain HTTP.",
    )
    RDMA_SESSION_CLAIMED = (
        "RDMASessionClaimed",
        409,
        "Another READY has already claimed this RDMA session; sessions are used once.",
    )
    RDMA_TRANSFER_TIMEOUT = (
        "RDMATransferTimeout",
        408,
        "The RDMA data phase did not finish before its deadline; nothing was stored.",
    )
    RDMA_TRANSFER_FAILED = (
        "RDMATransferFailed",
        500,
        "The RDMA transfer failed; nothing was stored.",
    )
    RDMA_TRANSFER_TOO_LARGE = (
        "EntityTooLarge",
        413,
        "The transfer exceeds what one RDMA session carries; use multipart upload.",
    )
    REQUEST_HEADER_SECTION_TOO_LARGE = (
        "RequestHeaderSectionTooLarge",
        400,
        "Your request header section exceeds the maximum allowed size.",
    )
    REQUEST_TIMEOUT = (
        "RequestTimeout",
        400,
        "Your socket connection to the server was not read from or written to in time.",
    )
    REQUEST_TIME_TOO_SKEWED = (
        "RequestTimeTooSkewed",
        403,
        "The difference between the request time and the server's time is too large.",
    )
    SIGNATURE_DOES_NOT_MATCH = (
        "SignatureDoesNotMatch",
        403,
        "The request signature we calculated does not match the signature you provided. "
        "Check your key and signing method.",
    )
    SLOW_DOWN = ("SlowDown", 503, "Please reduce your request rate.")
    SERVICE_UNAVAILABLE = ("ServiceUnavailable", 503, "Service is unable to handle the request.")
    TOO_MANY_BUCKETS = ("TooManyBuckets", 400, "You have attempted to create too many buckets.")
    CONTENT_SHA256_MISMATCH = (
        "XAmzContentSHA256Mismatch",
        400,
        "The provided 'x-amz-content-sha256' header does not match what was computed.",
    )
    UNEXPECTED_CONTENT = ("UnexpectedContent", 400, "This request does not support content.")
    UNRESOLVABLE_GRANT_BY_EMAIL_ADDRESS = (
        "UnresolvableGrantByEmailAddress",
        400,
        "The email address you provided does not match any account on record.",
    )
    URI_TOO_LONG = ("URITooLong", 414, "The request URI is too long.")

    def __init__(self, code: str, status: int, message: str) -> None:
        self.code = code
        self.status = status
        self.message = message


@dataclass(frozen=True, slots=True)
class ForeignCode:
    """A code that the service upstream answers with and S3Code doesn't know, passed through."""

    code: str
    status: int
    message: str


_NONE: Mapping[str, str] = MappingProxyType({})


class GatewayError(Exception):
    """An outcome other than success, complete enough to be rendered without looking anything up.

    Attributes:
        code: the row of S3Code, or what the service upstream said.
        message: text for the client; defaults to the row's. Never a secret, a signature, an rkey.
        details: extra XML elements, name to text, in order (``Key``, ``RangeRequested``, …).
        headers: extra reply headers (``Retry-After``, ``x-amz-rdma-protocol-status``, …).
    """

    def __init__(
        self,
        code: S3Code | ForeignCode,
        message: str = "",
        *,
        details: Mapping[str, str] = _NONE,
        headers: Mapping[str, str] = _NONE,
    ) -> None:
        super().__init__(message or code.message)
        self.code = code
        self.message = message or code.message
        self.details = details
        self.headers = headers


class ClientError(GatewayError):
    """The request is at fault; repeating it unchanged will fail again."""


class BusyError(GatewayError):
    """A named limit is reached: 503 SlowDown with Retry-After.

    Args:
        message: which limit, and the setting that raises it.
        retry_after_s: whole seconds, >= 1.
        limit: the setting, for the metrics; "" where it is not one that keys share.
    """

    def __init__(self, message: str = "", *, retry_after_s: int = 1, limit: str = "") -> None:
        super().__init__(
            S3Code.SLOW_DOWN, message, headers={"Retry-After": str(max(1, retry_after_s))}
        )
        self.limit = limit


class TransportError(GatewayError):
    """The bytes did not arrive whole by RDMA; the session that carried them is over."""

    def __init__(self, message: str = "", *, code: S3Code = S3Code.RDMA_TRANSFER_FAILED) -> None:
        super().__init__(code, message)


class InternalError(GatewayError):
    """Our bug or our disk. The client sees the opaque default text; ``cause`` is for the log."""

    def __init__(self, cause: str) -> None:
        super().__init__(S3Code.INTERNAL_ERROR)
        self.cause = cause
