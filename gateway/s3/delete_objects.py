"""DeleteObject, and DeleteObjects with up to a thousand keys.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteObjects.html
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from gateway.errors import ClientError, GatewayError, S3Code
from gateway.s3.body import Body
from gateway.s3.context import Context
from gateway.s3.documents import leaf
from gateway.s3.operations import DeleteObject, DeleteObjects
from gateway.s3.results import Reply, XmlReply
from gateway.wire.conditional import NO_CONDITIONS, Conditions, unquote_etag
from gateway.wire.names import check_key
from gateway.wire.xml import document, element, parse_xml

MAX_KEYS = 1000
_MAX_CONCURRENT = 16

# Conditions of single entries that this gateway can't hold; ignoring them would delete too much.
_UNSERVED_CONDITIONS = frozenset({"LastModifiedTime", "Size"})


@dataclass(frozen=True, slots=True)
class _Entry:
    """One Object of the list. `unserved` names a condition that can't be held, or is ""."""

    key: str
    version_id: str | None
    etag: str | None
    unserved: str


async def delete_object(operation: DeleteObject, context: Context) -> Reply:
    """204, also where there was none: a delete says what is not there afterwards."""
    await context.storage.delete_object(
        operation.bucket, operation.key, operation.version_id, operation.conditions
    )
    return Reply(status=204)


async def delete_objects(operation: DeleteObjects, body: Body, context: Context) -> XmlReply:
    """Delete each key by itself; the reply says of each, in the list's order, what came of it.

    Raises:
        ClientError: MalformedXML for a list of none or of more than a thousand; NoSuchBucket.
    """
    limit_bytes = context.limits.max_xml_bytes
    entries, quiet = _parse(await body.read(limit_bytes), limit_bytes)
    await context.storage.head_bucket(operation.bucket)
    turns = asyncio.Semaphore(_MAX_CONCURRENT)

    async def in_turn(entry: _Entry) -> GatewayError | None:
        async with turns:
            return await _delete_entry(operation.bucket, entry, context)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(in_turn(entry)) for entry in entries]
    outcomes = zip(entries, (task.result() for task in tasks), strict=True)
    shown = (_outcome(entry, error) for entry, error in outcomes if error is not None or not quiet)
    return XmlReply(root=document("DeleteResult", *shown))


def _parse(data: bytes, limit_bytes: int) -> tuple[list[_Entry], bool]:
    """The entries, and whether only failures are to be reported."""
    root = parse_xml(data, limit_bytes)
    entries = [_entry(found) for found in root.findall("Object")]
    if root.tag != "Delete" or not 1 <= len(entries) <= MAX_KEYS:
        raise ClientError(
            S3Code.MALFORMED_XML,
            f"A Delete document lists 1 to {MAX_KEYS} objects, each with a Key.",
        )
    return entries, (root.findtext("Quiet") or "").strip().lower() == "true"


def _entry(found: Element) -> _Entry:
    key = found.findtext("Key")
    if not key:
        raise ClientError(S3Code.MALFORMED_XML, "An Object of a Delete document has no Key.")
    unserved = sorted(_UNSERVED_CONDITIONS.intersection(child.tag for child in found))
    return _Entry(
        key=key,
        version_id=found.findtext("VersionId") or None,
        etag=found.findtext("ETag"),
        unserved=unserved[0] if unserved else "",
    )


async def _delete_entry(bucket: str, entry: _Entry, context: Context) -> GatewayError | None:
    """Delete one entry under its own policy check; its error is its own as well."""
    conditions = NO_CONDITIONS
    if entry.etag is not None:
        conditions = Conditions(if_match=(unquote_etag(entry.etag),))
    single = DeleteObject(bucket, entry.key, entry.version_id, conditions)
    try:
        if entry.unserved:
            raise ClientError(
                S3Code.NOT_IMPLEMENTED, f"The condition {entry.unserved} is not implemented."
            )
        check_key(entry.key, context.limits.max_key_bytes)
        context.authorise(single)
        await delete_object(single, context)
    except GatewayError as error:
        return error
    return None


def _outcome(entry: _Entry, error: GatewayError | None) -> Element:
    shown = element("Deleted" if error is None else "Error", leaf("Key", entry.key))
    if entry.version_id is not None:
        shown.append(leaf("VersionId", entry.version_id))
    if error is not None:
        shown.append(leaf("Code", error.code.code))
        shown.append(leaf("Message", error.message))
    return shown
