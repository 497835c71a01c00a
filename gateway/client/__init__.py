"""For programs: S3 objects into and out of any buffer, by RDMA where both sides can.

::

    async with Client(endpoint_url="http://gateway:9000") as client:
        await client.put_from("bucket", "key", buffer)

    with SyncClient(endpoint_url="http://gateway:9000") as client:
        print(client.get_into("bucket", "key", buffer).path)
        client.get_many([("bucket", "1", array), ("bucket", "2", tensor)])

``gateway.client.boto3`` does it for an existing boto3 client, ``gateway.client.fsspec`` for pandas
and its friends (``s3rdma://``).
"""

from gateway.client.client import Client
from gateway.client.errors import (
    ConnectError,
    CredentialsError,
    S3Error,
    S3RdmaError,
    TransferError,
    UnsupportedError,
)
from gateway.client.models import (
    Bucket,
    DeleteFailure,
    Deletion,
    Listing,
    ObjectHead,
    ObjectSummary,
    ObjectVersion,
    Outcome,
    RdmaMode,
    RdmaProtocol,
    Transfer,
    TransferPath,
    VersionListing,
)
from gateway.client.sync import SyncClient

__all__ = [
    "Bucket",
    "Client",
    "ConnectError",
    "CredentialsError",
    "DeleteFailure",
    "Deletion",
    "Listing",
    "ObjectHead",
    "ObjectSummary",
    "ObjectVersion",
    "Outcome",
    "RdmaMode",
    "RdmaProtocol",
    "S3Error",
    "S3RdmaError",
    "SyncClient",
    "Transfer",
    "TransferError",
    "TransferPath",
    "UnsupportedError",
    "VersionListing",
]
