"""The upstream storage under the contract suite, and what a service behind it can't promise."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from s3_servers import S3Server
from storing import MAX_STAGED

from gateway.config import GIB, UpstreamConfig
from gateway.storage.port import ObjectInfo
from gateway.storage.upstream.abilities import Abilities
from gateway.storage.upstream.storage import UpstreamStorage

Limits = dict[str, tuple[str, ...]]
"""Why, and which tests of the contract can't hold therefore."""

COMMON: Limits = {
    "HEAD does not tell of a version whether it is the latest": (
        "test_put__enabled__every_version_stays_readable",
        "test_version_id__null_or_other__current_or_no_such_version",
    ),
    "S3 has no read-modify-write: each document and attribute is replaced as a whole": (
        "test_permit__forbids__nothing_is_removed",
        "test_update_bucket__many_at_once__none_is_lost",
        "test_update_object__many_at_once__each_sees_the_one_before",
    ),
    "S3's answer to a delete does not tell whether something was there": (
        "test_delete__enabled_and_nothing_there__a_marker_all_the_same",
        "test_delete_object__twice__true_then_false",
        "test_delete_version__unknown__no_error_and_no_marker",
    ),
    "a service computes ETags and part sizes by itself, and takes no parts below 5 MiB": (
        "test_abort_upload__late_or_twice__no_such_upload_and_no_harm",
        "test_commit_object__all_attributes__given_back_word_for_word",
        "test_complete_upload__10000_parts__one_object_readable_anywhere",
        "test_complete_upload__bad_lists__refused_and_still_active",
        "test_complete_upload__conditions__judged_at_publish",
        "test_complete_upload__draft__attributes_and_checksums_kept",
        "test_complete_upload__enabled__a_new_version_with_its_parts",
        "test_complete_upload__many_parts__whole",
        "test_complete_upload__three_parts__one_object_across_their_borders",
        "test_complete_upload__unlisted_parts__dropped",
        "test_update_object__attributes__only_they_change",
    ),
    "a service keeps no replaced object for its readers: their reading ends in an error": (
        "test_reader__multipart_object_replaced__reads_what_it_opened",
        "test_reader__replaced_and_deleted__reads_what_it_opened",
        "test_reader__version_removed_while_open__reads_to_the_end",
    ),
    "a service keeps what it knows: real policies, real accounts, and no other documents": (
        "test_create_bucket__everything_configured__given_back",
        "test_update_bucket__change__kept_but_for_what_a_bucket_is",
    ),
    "a service tells times in whole seconds, and of a bucket or upload in its list only": (
        "test_commit_object__replacement__newer_time_and_content",
        "test_commit_part__checksums__kept",
        "test_commit_part__same_number_again__replaces",
        "test_create_upload__all_fields__given_back",
        "test_head_bucket__created__same_info",
        "test_list_objects__multipart_object__without_its_parts",
        "test_list_parts__pages__in_order_of_number",
    ),
    "after its end a service knows an upload by the object's ETag only": (
        "test_complete_upload__identical_again__same_result",
        "test_complete_upload__identical_at_once__same_result",
    ),
    "of two at once S3 lets either win, or both": (
        "test_complete_and_abort__at_once__one_of_them_wins",
    ),
    "thousands of requests; a service's listing is its own, seen by the other tests": (
        "test_list_objects__any_keys_and_pages__equal_the_model",
        "test_list_objects__any_marker__what_sorts_after_it",
        "test_list_versions__any_history_and_pages__equal_the_model",
        "test_random_history__any_steps__equals_a_list_of_versions",
        "test_stage__refused_often__takes_no_place",
    ),
    "what is elsewhere has no extents: it goes through windows (test_upstream_rdma)": (
        "test_reader__ranges__exact_bytes",
    ),
}
"""Of any service."""

RGW: Limits = {
    "412 where S3 says 404": ("test_conditions__latest_is_a_marker__a_put_finds_nothing",),
    "StartAfter hides the prefix that holds it": (
        "test_list_objects__prefix_holds_the_marker__later_keys_still_show_it",
    ),
    "a delimiter that overlaps the prefix is found there": (
        "test_list_objects__delimiter_overlaps_the_prefix__key_is_no_common_prefix",
    ),
    "a key marker alone begins inside that key": (
        "test_list_versions__key_marker_alone__behind_all_of_that_key",
    ),
    "a key with NUL is refused": ("test_any_key__each_is_its_own_object",),
    "behind a version that is gone the rest of its key is lost": (
        "test_list_versions__each_page_deleted_before_the_next__ends_empty",
        "test_list_versions__marker_deleted_meanwhile__no_version_is_lost",
    ),
    "its HEAD does not tell of a delete marker": (
        "test_delete__enabled__a_marker_hides_the_versions",
        "test_update_object__refused_or_not_there__nothing_changed",
    ),
    "no common prefixes of uploads": ("test_list_uploads__delimiter__rolled_up",),
    "no conditional deletes": (
        "test_conditions__delete_and_nothing_there__nothing_happens",
        "test_conditions__delete_of_a_version__judged_against_that_version",
        "test_conditions__latest_is_a_marker__a_delete_is_held_against_it",
        "test_write_conditions__put_and_delete__judged_against_the_current_object",
    ),
    "of 32 racing writes none is told that it won": (
        "test_if_match__32_at_once__exactly_one_wins",
    ),
    "uploads of one key are ordered by id": (
        "test_list_uploads__markers__exclusive",
        "test_list_uploads__pages_within_one_key__in_order_of_initiation",
    ),
    "uploads outlive their bucket": ("test_delete_bucket__upload_in_progress__aborted_with_it",),
}
"""Of Ceph RGW 16.2, besides."""

MOTO: Limits = {
    "StartAfter hides the prefix that holds it": (
        "test_list_objects__prefix_holds_the_marker__later_keys_still_show_it",
    ),
    "a key marker alone begins inside that key": (
        "test_list_versions__key_marker_alone__behind_all_of_that_key",
    ),
    "a part of an upload that ended is a 500": (
        "test_commit_part__upload_ended_while_staged__no_such_upload",
    ),
    "all uploads are one page, without prefixes": (
        "test_list_uploads__delimiter__rolled_up",
        "test_list_uploads__markers__exclusive",
        "test_list_uploads__pages_within_one_key__in_order_of_initiation",
    ),
    "an upload is looked up by its id only": (
        "test_head_upload__unknown_or_of_another_key__no_such_upload",
    ),
    "behind a version that is gone the rest of its key is lost": (
        "test_list_versions__each_page_deleted_before_the_next__ends_empty",
        "test_list_versions__marker_deleted_meanwhile__no_version_is_lost",
    ),
    "conditions of a delete are held against the key": (
        "test_conditions__delete_of_a_version__judged_against_that_version",
        "test_conditions__latest_is_a_marker__a_delete_is_held_against_it",
    ),
    "every null version is kept": (
        "test_delete__suspended__a_null_marker_replaces_the_null_version",
        "test_put__suspended__replaces_the_null_version_wherever_it_is",
    ),
    "its HEAD does not tell of a delete marker": (
        "test_delete__enabled__a_marker_hides_the_versions",
    ),
    "one ETag is compared, word for word": (
        "test_write_conditions__put_and_delete__judged_against_the_current_object",
    ),
    "the key's latest goes, whichever version is named": (
        "test_delete_version__the_marker__the_object_is_back",
    ),
}
"""Of moto 5, besides."""

_OWN = {"rgw": RGW, "moto": MOTO}

_known: dict[str, Abilities] = {}


class AsToldByHead(UpstreamStorage):
    """What a write answers has no time and no defaults of the service; the suite compares them."""

    async def commit_object(self, staged: Any, bucket: str, key: str, *rest: Any) -> ObjectInfo:
        made = await super().commit_object(staged, bucket, key, *rest)
        found = await self.head_object(bucket, key, None)
        return found if found.etag == made.etag else made


def upstream_config(server: S3Server, **settings: Any) -> UpstreamConfig:
    given = {"max_staged": MAX_STAGED, "bucket_ttl_s": 0.0, "buffer_bytes": 8 * GIB} | settings
    return UpstreamConfig(
        endpoint=server.endpoint,
        access_key=server.access_key,
        secret_key=server.secret_key,
        **given,
    )


@asynccontextmanager
async def upstream_storage(server: S3Server, **settings: Any) -> AsyncIterator[UpstreamStorage]:
    """Started, on a server without buckets; what the server can is asked once."""
    server.purge()
    made = AsToldByHead(
        upstream_config(server, **settings),
        own_id="0" * 64,
        region="us-east-1",
        secrets=lambda _: None,
        abilities=_known.get(server.name),
    )
    await made.start()
    _known[server.name] = made.abilities
    yield made
    await made.stop()


def limit_of(server: str, test: str) -> str | None:
    """Why a test of the contract can't hold for this server."""
    limits = (COMMON | _OWN[server]).items()
    return next((why for why, tests in limits if test in tests), None)
