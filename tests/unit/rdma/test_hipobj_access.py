"""Bucket policies hold on transfers by RDMA as over HTTP: at PREPARE, and again at READY."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from storing import draft, new_bucket, stage

DATA = b"some data"


async def set_policy(gateway, bucket, effect, action, **condition):
    statement = {
        "Effect": effect,
        "Principal": "*",
        "Action": action,
        "Resource": [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"],
    }
    if condition:
        statement["Condition"] = {"StringEquals": condition}
    policy = json.dumps({"Statement": statement})
    await gateway.storage.update_bucket(
        bucket, lambda info: replace(info, settings={"policy": policy})
    )


@pytest.mark.parametrize("op", ["GET", "PUT"])
async def test_prepare__anothers_bucket__is_403_until_its_policy_allows(gateway, op):
    await gateway.storage.create_bucket(new_bucket("theirs", owner="somebody-else"))
    staged = await stage(gateway.storage, DATA, "theirs")
    theirs = replace(draft(DATA), owner="somebody-else")
    await gateway.storage.commit_object(staged, "theirs", "key", theirs)
    side = gateway.client(DATA)
    assert (await gateway.prepare(side, op, "/theirs/key")).status == 403
    assert gateway.service.stats().sessions.get("offered", 0) == 0
    await set_policy(gateway, "theirs", "Allow", ["s3:GetObject", "s3:PutObject"])
    answer = (
        await gateway.put("/theirs/new", DATA)
        if op == "PUT"
        else (await gateway.get("/theirs/key", len(DATA)))[0]
    )
    assert answer.status == 200


async def test_ready__policy_changed_since_prepare__is_403_and_nothing_moves(gateway):
    await gateway.store("bucket", "key", DATA)
    side = gateway.client(len(DATA))
    offer = await gateway.offered(side, "GET", "/bucket/key")
    await set_policy(gateway, "bucket", "Deny", "s3:GetObject")
    assert (await gateway.ready(side, offer.session)).status == 403
    assert bytes(side.buffer) == bytes(len(DATA))


async def test_put__condition_on_a_header_of_prepare__holds_at_ready_too(gateway):
    await gateway.storage.create_bucket(new_bucket("theirs", owner="somebody-else"))
    actions = ["s3:PutObject", "s3:PutObjectAcl"]
    await set_policy(gateway, "theirs", "Allow", actions, **{"s3:x-amz-acl": "private"})
    assert (await gateway.prepare(gateway.client(DATA), "PUT", "/theirs/key")).status == 403
    answer = await gateway.put("/theirs/key", DATA, extra={"x-amz-acl": "private"})
    assert answer.status == 200
