"""Buckets upstream: what they are configured to be, kept for a few seconds.

Every request asks for its bucket, and the service tells of it in half a dozen replies. They are
asked for at once and kept for `upstream.bucket_ttl_s`: so long may another gateway's change, or the
service's own, go unseen here.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gateway.errors import ClientError, GatewayError, S3Code
from gateway.storage import rules
from gateway.storage.acting import ACTOR
from gateway.storage.port import BucketInfo, Versioning
from gateway.storage.upstream.abilities import Abilities
from gateway.storage.upstream.acls import Owner
from gateway.storage.upstream.documents import LOCK, TAGGING, Documents, join_owner, split_owner
from gateway.storage.upstream.faults import refused
from gateway.storage.upstream.service import Service
from gateway.storage.upstream.values import Parameters, location, posix_ns

_AT_ONCE = 16  # buckets that a list asks for
_Place = tuple[str, str]


class Buckets:
    """The service's buckets, as the port has them.

    Args:
        own_id: the canonical user id that the gateway's own account has here.
        region: the gateway's own, which every bucket is said to be in.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        service: Service,
        abilities: Abilities,
        *,
        own_id: str,
        region: str,
        clock: Callable[[], float],
    ) -> None:
        self._service = service
        self._abilities = abilities
        self._documents = Documents(service, abilities)
        self._own_id = own_id
        self._region = region
        self._clock = clock
        self._known: OrderedDict[_Place, tuple[float, BucketInfo]] = OrderedDict()
        self._coming: dict[_Place, asyncio.Task[BucketInfo]] = {}
        self._ids: dict[str, str] = {}

    async def get(self, bucket: str) -> BucketInfo:
        """As it was at most `bucket_ttl_s` ago. Raises NoSuchBucket."""
        place = (self._signer(), bucket)
        known = self._known.get(place)
        if known is not None and self._clock() < known[0]:
            return known[1]
        if place not in self._coming:
            self._coming[place] = asyncio.create_task(self._look(place))
        return await asyncio.shield(self._coming[place])

    async def require(self, bucket: str) -> None:
        """Raises NoSuchBucket."""
        try:
            await self._service.call("head_bucket", Bucket=bucket)
        except GatewayError as error:
            if error.code.status == 404:
                raise rules.no_such_bucket(bucket) from error
            raise

    async def list(self) -> Sequence[BucketInfo]:
        """All, by name."""
        reply = await self._service.call("list_buckets")
        turns = asyncio.Semaphore(_AT_ONCE)

        async def one(entry: Mapping[str, Any]) -> BucketInfo | None:
            async with turns:
                try:
                    info = await self.get(str(entry["Name"]))
                except ClientError:  # deleted meanwhile, or nobody's that signs here
                    return None
            return replace(info, created_ns=posix_ns(entry["CreationDate"]))

        found = await asyncio.gather(*(one(entry) for entry in reply.get("Buckets", ())))
        return sorted((info for info in found if info), key=lambda info: info.name)

    async def create(self, wanted: BucketInfo) -> BucketInfo:
        """Raises BucketAlreadyOwnedByYou, BucketAlreadyExists, NotImplemented."""
        if wanted.owner and self._service.own_key and TAGGING not in self._abilities.documents:
            raise refused("keep the owner of a bucket, so only the gateway's own account has any")
        try:
            there = await self.get(wanted.name)
        except GatewayError as error:
            if error.code is not S3Code.NO_SUCH_BUCKET:
                raise
        else:
            raise rules.bucket_exists(there, wanted.owner)
        await self._service.call("create_bucket", repeatable=False, **self._creation(wanted))
        bare = BucketInfo(wanted.name, 0, self._region, wanted.owner)
        if wanted.object_lock:
            bare = replace(bare, versioning=Versioning.ENABLED, object_lock=True)
        try:
            if wanted.owner and self._service.own_key and TAGGING not in wanted.settings:
                await self._put_tags(wanted, "")
            await self._apply(bare, wanted)
        finally:
            self.forget(wanted.name)
        return await self.get(wanted.name)

    async def update(self, bucket: str, change: Callable[[BucketInfo], BucketInfo]) -> BucketInfo:
        """Change what differs. A step for each document: S3 has no larger one."""
        self.forget(bucket)
        before = await self.get(bucket)
        try:
            await self._apply(before, rules.reconfigured(before, change(before)))
        finally:
            self.forget(bucket)
        return await self.get(bucket)

    async def delete(self, bucket: str) -> None:
        await self._service.call("delete_bucket", Bucket=bucket)
        self.forget(bucket)

    def forget(self, bucket: str) -> None:
        """What is known is not so any more."""
        for place in [one for one in self._known if one[1] == bucket]:
            del self._known[place]

    async def owner(self, owner: str) -> Owner:
        """Whoever signs, by both names; `owner` is the record's."""
        signer = self._signer()
        if signer not in self._ids:
            reply = await self._service.call("list_buckets")
            if len(self._ids) >= self._service.config.max_buckets:
                self._ids.clear()
            self._ids[signer] = str(reply.get("Owner", {}).get("ID", ""))
        return Owner(owner or self._own_id, self._ids[signer])

    def _signer(self) -> str:
        """Whose key signs: buckets look different to each."""
        return "" if self._service.own_key else ACTOR.get().access_key or ""

    async def _look(self, place: _Place) -> BucketInfo:
        try:
            info = await self._ask(place[1])
        finally:
            del self._coming[place]
        while len(self._known) >= self._service.config.max_buckets:
            self._known.popitem(last=False)
        self._known[place] = (self._clock() + self._service.config.bucket_ttl_s, info)
        return info

    async def _ask(self, bucket: str) -> BucketInfo:
        """Everything at once: the bucket's existence costs no trip of its own."""
        names = self._documents.names()
        documents = asyncio.gather(*(self._documents.get(bucket, name) for name in names))
        _, versioning, acl, texts = await asyncio.gather(
            self.require(bucket), self._versioning(bucket), self._acl(bucket), documents
        )
        settings = {name: text for name, text in zip(names, texts, strict=True) if text}
        owner, tagging = split_owner(settings.pop(TAGGING, ""))
        if tagging:
            settings[TAGGING] = tagging
        if not self._service.own_key:
            owner = ACTOR.get().user_id
        named = Owner(owner or self._own_id, str(acl.get("Owner", {}).get("ID", "")))
        return BucketInfo(
            bucket,
            created_ns=0,
            region=self._region,
            owner="" if owner == self._own_id else owner,
            versioning=versioning,
            object_lock=LOCK in settings,
            grants=named.read(acl) if acl else (),
            settings=settings,
        )

    async def _versioning(self, bucket: str) -> Versioning:
        if not self._abilities.versioning:
            return Versioning.OFF
        reply = await self._service.call("get_bucket_versioning", Bucket=bucket)
        return Versioning(reply.get("Status", ""))

    async def _acl(self, bucket: str) -> Parameters:
        if not self._abilities.acl:
            return {}
        return await self._service.call("get_bucket_acl", Bucket=bucket)

    def _creation(self, wanted: BucketInfo) -> Parameters:
        given = {"Bucket": wanted.name, **location(self._service.config.region)}
        if wanted.object_lock:
            if LOCK not in self._abilities.documents:
                raise refused("lock objects")
            given["ObjectLockEnabledForBucket"] = True
        return given

    async def _apply(self, before: BucketInfo, after: BucketInfo) -> None:
        if after.versioning is not before.versioning:
            await self._put_versioning(after)
        for name in {*before.settings, *after.settings}:
            text = after.settings.get(name, "")
            if text == before.settings.get(name, ""):
                continue
            if name == TAGGING:
                await self._put_tags(after, text)
            else:
                await self._documents.put(after.name, name, text)
        if after.grants != before.grants:
            await self._put_grants(after)

    async def _put_versioning(self, bucket: BucketInfo) -> None:
        if not self._abilities.versioning:
            raise refused("keep versions")
        await self._service.call(
            "put_bucket_versioning",
            Bucket=bucket.name,
            VersioningConfiguration={"Status": bucket.versioning.value},
        )

    async def _put_tags(self, bucket: BucketInfo, text: str) -> None:
        owner = bucket.owner if self._service.own_key else ""
        await self._documents.put(bucket.name, TAGGING, join_owner(owner, text))

    async def _put_grants(self, bucket: BucketInfo) -> None:
        if not self._abilities.acl:
            raise refused("keep access control lists")
        owner = await self.owner(bucket.owner)
        await self._service.call(
            "put_bucket_acl",
            Bucket=bucket.name,
            AccessControlPolicy=owner.document(bucket.grants),
        )
