"""A bucket's documents, word for word: which calls get, put and delete each.

The owner of a bucket that is not the gateway's own is one tag among its tags upstream, and is seen
in no document.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gateway.errors import GatewayError, S3Code
from gateway.storage.upstream.abilities import DOCUMENTS, Abilities
from gateway.storage.upstream.clients import RAW_BODY, Raw
from gateway.storage.upstream.faults import refused
from gateway.storage.upstream.service import CallError, Reply, Service
from gateway.storage.upstream.values import Parameters
from gateway.wire.xml import document, element, parse_xml, render

OWNER_TAG = "s3rdma-owner"
TAGGING, LOCK = "tagging", "object-lock"

_MAX_DOCUMENT_BYTES = 1024 * 1024
_HEAD_CHARACTERS = 256
_ABSENT_STATUSES = (404, 405, 501)


@dataclass(frozen=True, slots=True)
class _Calls:
    """Of one document; `delete` is "" where it can't be, `root` its root element if it is XML."""

    get: str
    put: str
    delete: str = ""
    root: str = ""

    def tells(self, text: str) -> bool:
        """Whether it is this document: some services answer an unknown question with a list."""
        return not self.root or f"<{self.root}" in text[:_HEAD_CHARACTERS]


_CALLS: Mapping[str, _Calls] = MappingProxyType(
    {
        "cors": _Calls(
            "get_bucket_cors", "put_bucket_cors", "delete_bucket_cors", "CORSConfiguration"
        ),
        LOCK: _Calls(
            "get_object_lock_configuration",
            "put_object_lock_configuration",
            root="ObjectLockConfiguration",
        ),
        "ownershipControls": _Calls(
            "get_bucket_ownership_controls",
            "put_bucket_ownership_controls",
            "delete_bucket_ownership_controls",
            "OwnershipControls",
        ),
        "policy": _Calls("get_bucket_policy", "put_bucket_policy", "delete_bucket_policy"),
        "publicAccessBlock": _Calls(
            "get_public_access_block",
            "put_public_access_block",
            "delete_public_access_block",
            "PublicAccessBlockConfiguration",
        ),
        TAGGING: _Calls(
            "get_bucket_tagging", "put_bucket_tagging", "delete_bucket_tagging", "Tagging"
        ),
    }
)

# What botocore wants of a document that `Raw` replaces: it looks at no more of it than this.
_PLACEHOLDERS: Mapping[str, Parameters] = MappingProxyType(
    {
        "cors": {"CORSConfiguration": {}},
        LOCK: {"ObjectLockConfiguration": {}},
        "ownershipControls": {"OwnershipControls": {}},
        "policy": {"Policy": "{}"},
        "publicAccessBlock": {"PublicAccessBlockConfiguration": {}},
        TAGGING: {"Tagging": {}},
    }
)


async def knows(service: Service, bucket: str, name: str) -> bool:
    """Whether the service has such a document, be it none, of a bucket that is there."""
    try:
        reply = await service.attempt(_CALLS[name].get, Bucket=bucket)
    except CallError as failed:
        return failed.answer is not None and failed.answer.status == 404
    return _CALLS[name].tells(_text(reply))


class Documents:
    """The documents of the service's buckets."""

    def __init__(self, service: Service, abilities: Abilities) -> None:
        self._service = service
        self._abilities = abilities

    def names(self) -> tuple[str, ...]:
        """What can be asked for."""
        return tuple(name for name in DOCUMENTS if self._can(name))

    async def get(self, bucket: str, name: str) -> str:
        """A document as it is stored; "" where there is none. Raises NoSuchBucket, …."""
        try:
            reply = await self._service.attempt(_CALLS[name].get, Bucket=bucket)
        except CallError as failed:
            answer = failed.answer
            if (
                answer is not None
                and answer.status in _ABSENT_STATUSES
                and failed.error.code is not S3Code.NO_SUCH_BUCKET
            ):
                return ""
            raise failed.error from failed
        text = _text(reply)
        return text if _CALLS[name].tells(text) else ""

    async def put(self, bucket: str, name: str, text: str) -> None:
        """Replace a document; "" removes it. Raises NotImplemented where the service can't."""
        if not self._can(name):
            raise refused(f"keep the {name} document of a bucket")
        if text:
            await self._service.call(
                _CALLS[name].put,
                raw=Raw(body=text.encode("utf-8")),
                Bucket=bucket,
                **_PLACEHOLDERS[name],
            )
        elif _CALLS[name].delete:
            await self._service.call(_CALLS[name].delete, Bucket=bucket)

    def _can(self, name: str) -> bool:
        return name in self._abilities.documents


def split_owner(tagging: str) -> tuple[str, str]:
    """(owner, tagging document without it) of a bucket's tags upstream."""
    owner = ""
    kept = []
    for tag in _tags(tagging):
        if tag[0] == OWNER_TAG:
            owner = tag[1]
        else:
            kept.append(tag)
    return owner, _tagging(kept) if kept else ""


def join_owner(owner: str, tagging: str) -> str:
    """The bucket's tags upstream. Nobody says of himself that he is the owner."""
    tags = [tag for tag in _tags(tagging) if tag[0] != OWNER_TAG]
    if owner:
        tags.append((OWNER_TAG, owner))
    return _tagging(tags) if tags else ""


def _text(reply: Reply) -> str:
    raw = reply.get(RAW_BODY, b"")
    return bytes(raw).decode("utf-8", "replace").strip()


def _tags(text: str) -> list[tuple[str, str]]:
    if not text:
        return []
    try:
        root = parse_xml(text.encode("utf-8"), _MAX_DOCUMENT_BYTES)
    except GatewayError as error:
        raise refused("tell its tags in XML that can be read") from error
    return [(tag.findtext("Key") or "", tag.findtext("Value") or "") for tag in root.iter("Tag")]


def _tagging(tags: list[tuple[str, str]]) -> str:
    listed = (
        element("Tag", element("Key", text=key), element("Value", text=value))
        for key, value in tags
    )
    return render(document("Tagging", element("TagSet", *listed))).decode("utf-8")
