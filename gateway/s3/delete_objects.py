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
from gateway.s3.documents import leaf, truth
from gateway.s3.operations import DeleteObject, DeleteObjects
from gateway.s3.results import Reply, XmlReply
from gateway.s3.retention import deletion_permit
from gateway.storage.port import NULL_VERSION, Deletion
from gateway.wire.conditional import Conditions, delete_conditions, unquote_etag
from gateway.wire.names import check_key
from gateway.wire.xml import document, element, parse_xml

MAX_KEYS = 1000
_MAX_CONCURRENT = 16


@dataclass(frozen=True, slots=True)
class _Entry:
    """One Object of the list; the texts of its conditions, None where they are absent."""

    key: str
    version_id: str | None
    etag: str | None
    modified: str | None
    size: str | None

    def conditions(self) -> Conditions:
        """Raises InvalidArgument."""
        if_match = None if self.etag is None else (unquote_etag(self.etag),)
        return delete_conditions(if_match, self.modified, self.size)


async def delete_object(operation: DeleteObject, context: Context) -> Reply:
    """204, also where there was none: a delete says what is not there afterwards."""
    deletion = await _delete(operation, context)
    headers = []
    if deletion.delete_marker:
        headers.append(("x-amz-delete-marker", "true"))
    if deletion.version_id is not None:
        headers.append(("x-amz-version-id", deletion.version_id))
    return Reply(status=204, headers=tuple(headers))


async def _delete(operation: DeleteObject, context: Context) -> Deletion:
    return await context.storage.delete_object(
        operation.bucket,
        operation.key,
        operation.version_id,
        operation.conditions,
        owner=context.principal.user_id,
        permit=await deletion_permit(operation, context),
    )


async def delete_objects(operation: DeleteObjects, body: Body, context: Context) -> XmlReply:
    """Delete each key by itself; the reply says of each, in the list's order, what came of it.

    Raises:
        ClientError: MalformedXML for a list of none or of more than a thousand; NoSuchBucket.
    """
    limit_bytes = context.limits.max_xml_bytes
    entries, quiet = _parse(await body.read(limit_bytes), limit_bytes)
    await context.storage.head_bucket(operation.bucket)
    turns = asyncio.Semaphore(_MAX_CONCURRENT)

    async def in_turn(entry: _Entry) -> Deletion | GatewayError:
        async with turns:
            return await _delete_entry(operation, entry, context)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(in_turn(entry)) for entry in entries]
    outcomes = [(entry, task.result()) for entry, task in zip(entries, tasks, strict=True)]
    shown = (
        _shown(entry, outcome)
        for entry, outcome in outcomes
        if isinstance(outcome, GatewayError) or not quiet
    )
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
    return _Entry(
        key=key,
        version_id=found.findtext("VersionId") or None,
        etag=found.findtext("ETag"),
        modified=found.findtext("LastModifiedTime"),
        size=found.findtext("Size"),
    )


async def _delete_entry(
    operation: DeleteObjects, entry: _Entry, context: Context
) -> Deletion | GatewayError:
    """Delete one entry under its own policy check; its error is its own as well."""
    try:
        check_key(entry.key, context.limits.max_key_bytes)
        single = DeleteObject(
            operation.bucket,
            entry.key,
            entry.version_id,
            entry.conditions(),
            operation.bypass_governance,
        )
        await context.authorise(single)
        return await _delete(single, context)
    except GatewayError as error:
        return error


def _shown(entry: _Entry, outcome: Deletion | GatewayError) -> Element:
    """Deleted, with the delete marker that was made or removed; or Error."""
    failed = isinstance(outcome, GatewayError)
    shown = element("Error" if failed else "Deleted", leaf("Key", entry.key))
    if entry.version_id is not None:
        shown.append(leaf("VersionId", entry.version_id))
    match outcome:
        case GatewayError():
            shown.append(leaf("Code", outcome.code.code))
            shown.append(leaf("Message", outcome.message))
        case Deletion(delete_marker=True, version_id=marker_id):
            shown.append(truth("DeleteMarker", True))
            shown.append(leaf("DeleteMarkerVersionId", marker_id or NULL_VERSION))
    return shown
