"""Staging and committing: objects and parts on their way to the service."""

from __future__ import annotations

import mmap

from gateway.config.upstream import UpstreamConfig
from gateway.errors import BusyError
from gateway.storage.port import Destination, ObjectDraft, ObjectInfo, PartInfo, Staged
from gateway.storage.upstream.abilities import Abilities
from gateway.storage.upstream.buckets import Buckets
from gateway.storage.upstream.budget import Budget
from gateway.storage.upstream.carriers import PartsCarrier, Shape, WholeCarrier
from gateway.storage.upstream.faults import refused
from gateway.storage.upstream.service import Reply, Service
from gateway.storage.upstream.staged import Carrier, UpstreamStaged
from gateway.storage.upstream.target import ObjectTarget, Part
from gateway.storage.upstream.values import (
    Parameters,
    condition_parameters,
    posix_ns_of_date,
    read_checksums,
    written_info,
)
from gateway.storage.upstream.window import Window
from gateway.wire.conditional import Conditions, unquote_etag

_MAX_PARTS = 10_000  # S3's own


class Writes:
    """Lends places for bytes, and sends what they hold.

    Args:
        budget: what is under way is taken from it.
    """

    def __init__(
        self,
        service: Service,
        abilities: Abilities,
        buckets: Buckets,
        budget: Budget,
    ) -> None:
        self._service = service
        self._abilities = abilities
        self._buckets = buckets
        self._budget = budget
        self._places = service.config.max_staged

    async def stage(
        self, bucket: str, size_hint_bytes: int | None, destination: Destination | None
    ) -> UpstreamStaged:
        """Raises NoSuchBucket, BusyError."""
        await self._buckets.get(bucket)
        config = self._service.config
        given: Parameters = {}
        if destination is not None:
            given = write_conditions(destination.conditions, self._abilities)
        if not self._places:
            raise BusyError(f"{config.max_staged} uploads are under way (upstream.max_staged)")
        held_bytes = self._shape(size_hint_bytes).held_bytes
        if size_hint_bytes is not None:
            held_bytes = min(held_bytes, size_hint_bytes)
        self._budget.take(held_bytes)
        self._places -= 1

        def released() -> None:
            self._places += 1
            self._budget.give(held_bytes)

        window = Window()
        carrier = None
        if destination is not None:
            carrier = self._carrier(window, bucket, destination, given, size_hint_bytes)
        return UpstreamStaged(window, carrier, config.buffer_bytes, released)

    async def commit_object(
        self,
        staged: Staged,
        bucket: str,
        key: str,
        draft: ObjectDraft,
        conditions: Conditions,
    ) -> ObjectInfo:
        """Publish; the service judges the conditions in the step that does."""
        destination = Destination(key, draft.attributes, draft.owner, conditions)
        reply = await self._commit(staged, bucket, destination, draft)
        return written_info(bucket, key, draft, reply)

    async def commit_part(
        self,
        staged: Staged,
        bucket: str,
        destination: Destination,
        draft: ObjectDraft,
    ) -> PartInfo:
        """Make it the upload's part. Raises NoSuchUpload."""
        reply = await self._commit(staged, bucket, destination, draft)
        return PartInfo(
            destination.number,
            draft.size_bytes,
            unquote_etag(reply["ETag"]),
            posix_ns_of_date(reply),
            read_checksums(reply),
        )

    async def _commit(
        self, staged: Staged, bucket: str, destination: Destination, draft: ObjectDraft
    ) -> Reply:
        place = _taken(staged)
        try:
            place.seal(draft)
            given = write_conditions(destination.conditions, self._abilities)
            if place.carrier is None:
                place.carrier = self._carrier(
                    place.window, bucket, destination, given, draft.size_bytes
                )
                place.carrier.arrived(draft.size_bytes)
            return await place.carrier.finish(draft, given)
        finally:
            await place.release()

    def _carrier(
        self,
        window: Window,
        bucket: str,
        destination: Destination,
        conditions: Parameters,
        length_bytes: int | None,
    ) -> Carrier:
        shape = self._shape(length_bytes)
        if destination.upload_id:
            address = {"Bucket": bucket, "Key": destination.key, "UploadId": destination.upload_id}
            part = Part(self._service, address).numbered(destination.number)
            return WholeCarrier(part, window, shape, length_bytes, conditions)
        target = ObjectTarget(self._service, bucket, destination, self._grants)
        tagged = bool(destination.attributes.tags)
        whole = (conditions and not shape.conditional_completes) or (
            tagged and not shape.upload_tags
        )
        if whole and length_bytes is not None:
            return WholeCarrier(target, window, shape, length_bytes, conditions)
        return PartsCarrier(target, window, shape, tagged=tagged)

    def _shape(self, length_bytes: int | None) -> Shape:
        config, abilities = self._service.config, self._abilities
        return Shape(
            part_length(config, length_bytes),
            config.concurrency,
            checksums=abilities.checksums,
            conditional_completes=abilities.conditional_completes,
            upload_tags=abilities.upload_tagging,
        )

    async def _grants(self, destination: Destination) -> Parameters:
        grants = destination.attributes.grants
        if not grants:
            return {}
        if not self._abilities.acl:
            raise refused("keep access control lists")
        return (await self._buckets.owner(destination.owner)).headers(grants)


def part_length(config: UpstreamConfig, length_bytes: int | None) -> int:
    """`upstream.part_bytes`, or more where an object would need too many parts; whole pages."""
    least_bytes = -(-(length_bytes or 0) // _MAX_PARTS)
    part_bytes = max(config.part_bytes, least_bytes)
    return -(-part_bytes // mmap.PAGESIZE) * mmap.PAGESIZE


def write_conditions(conditions: Conditions, abilities: Abilities) -> Parameters:
    """What the service is to judge. Raises NotImplemented where it doesn't."""
    given = condition_parameters(conditions)
    if given and not abilities.conditional_writes:
        raise refused("judge If-Match and If-None-Match of a write, and nobody else could")
    return given


def _taken(staged: Staged) -> UpstreamStaged:
    """Only what this driver staged can be committed to it."""
    if not isinstance(staged, UpstreamStaged):
        raise TypeError(f"{type(staged).__name__} was not staged by this storage")
    return staged
