"""The condition keys that requests have here; a policy that names any other is not stored.

A key that were ignored would let in whom the policy's author meant to keep out.
https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazons3.html
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html
"""

from __future__ import annotations

STATED_HEADERS = frozenset(
    {
        "x-amz-acl",
        "x-amz-content-sha256",
        "x-amz-grant-full-control",
        "x-amz-grant-read",
        "x-amz-grant-read-acp",
        "x-amz-grant-write",
        "x-amz-grant-write-acp",
        "x-amz-metadata-directive",
        "x-amz-object-ownership",
        "x-amz-server-side-encryption",
        "x-amz-server-side-encryption-aws-kms-key-id",
        "x-amz-server-side-encryption-customer-algorithm",
        "x-amz-storage-class",
        "x-amz-website-redirect-location",
    }
)
"""Headers that are keys by their own names, ``s3:x-amz-acl``."""

EXISTING_TAG = "s3:existingobjecttag/"
REQUEST_TAG = "s3:requestobjecttag/"
OF_BODIES = (REQUEST_TAG, "s3:requestobjecttagkeys", "s3:object-lock-")
"""How keys begin that a document may carry: tags, a retention, a legal hold."""

KEYS = frozenset(
    {
        "aws:currenttime",
        "aws:epochtime",
        "aws:principalarn",
        "aws:referer",
        "aws:securetransport",
        "aws:sourceip",
        "aws:useragent",
        "aws:userid",
        "s3:authtype",
        "s3:delimiter",
        "s3:max-keys",
        "s3:object-lock-legal-hold",
        "s3:object-lock-mode",
        "s3:object-lock-retain-until-date",
        "s3:prefix",
        "s3:requestobjecttagkeys",
        "s3:signatureversion",
        "s3:versionid",
        "s3:x-amz-copy-source",
    }
) | {f"s3:{name}" for name in STATED_HEADERS}
"""In lower case; keys don't heed it."""


def is_condition_key(key: str) -> bool:
    """Whether requests have that key; `key` in lower case."""
    return key in KEYS or any(
        key.startswith(prefix) and len(key) > len(prefix) for prefix in (EXISTING_TAG, REQUEST_TAG)
    )
